// Drafts from text: what followed before, in the text itself, in earlier answers, in a store, in recycled candidates.
// A source knows what may come next; a draft is grown from one or several of them, best first. Guarded by the GIL.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace outrider {

struct Guess {
  int token;
  double chance;  // that the target keeps it, if it comes by
};

// A draft's walk begins with start(); places are numbers that hold until the next walk or change of the source.
class Source {
 public:
  virtual ~Source() = default;
  virtual int start() = 0;                                                  // where the text ends; -1: nothing is known
  virtual void ahead(int place, int most, std::vector<Guess>* found) = 0;   // the best first, at most so many
  virtual int after(int place, int token) = 0;                              // -1: nothing is known there
  virtual void extend(const std::vector<int>& tokens) = 0;                  // the text goes on
};

// A suffix automaton (Blumer et al. 1985) that grows token by token and knows how often, and how lately, each of its
// states was met: every string of the text leads from the root to one state, and the strings of a state end at the same
// places. A cursor (state, matched) stands at the longest suffix of some other text; it holds until the automaton grows.
class Automaton {
 public:
  static constexpr int kRoot = 0;
  // Counting climbs from the longest known suffix at most so many links. Text has fewer than ten; only a text that goes
  // round in a short loop has more, and would otherwise pay for its whole length with each token.
  static constexpr int kMostLinks = 64;
  // A state with more followers than this keeps a list of its best ones, so that nobody has to look through all.
  static constexpr int kMostScanned = 12, kMostRanked = 8;

  struct Cursor {
    int state = kRoot, matched = 0;
  };
  struct Follower {
    int count, recent, token;  // how often; the last place
  };
  struct Ahead {
    int total, different;
    std::vector<Follower> found;
  };

  Automaton();
  void extend(int token);  // amortised O(1)
  int states() const { return static_cast<int>(states_.size()); }
  size_t size_bytes() const;  // what it takes at most: the room that growing vectors hold in reserve included
  Cursor tail() const;        // the text's longest suffix that stood in it before
  Cursor advance(Cursor at, int token) const;
  Cursor shorter(int state) const;  // the longest suffix with more occurrences
  // What came behind the strings of a state. Of more than kMostScanned tokens, the kMostRanked most frequent ones, and
  // total may be one too many, for the text's own end.
  void ahead(int state, Ahead* out);

 private:
  struct State {
    int length, link, count, recent, first, followers;  // first: of its edges, -1 for none
  };
  struct Edge {
    int state, token, to, next;
  };

  int find(int state, int token) const;  // its edge; -1: none
  void connect(int state, int token, int to);
  void rehash(size_t slots);
  int split(int above, int token, int edge);
  void met(int last, int token, int made);
  void rank(std::vector<int>* ranked, int state, int token);
  Follower follower(int edge) const;

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<int> slots_;                            // open addressing over (state, token) -> edge
  std::unordered_map<int, std::vector<int>> ranked_;  // of states with many followers: the most frequent, in no order
  int last_ = kRoot;                                  // the state of the whole text
};

// Earlier answers of several scopes, within a number of bytes; a reader sees those of its own scope and no others. An
// automaton cannot forget its beginning, so answers go into volumes, and the oldest volume is given up as a whole.
class Memory {
 public:
  static constexpr int kEdge = -1;  // stands before and behind each answer; no id of a vocabulary
  static constexpr size_t kVolumes = 4;

  explicit Memory(size_t limit) : limit_(limit) {}
  size_t size_bytes() const { return size_; }
  int64_t version() const { return version_; }                             // changes with each answer
  std::vector<std::shared_ptr<Automaton>> read(const std::string& scope);  // newest first
  void add(const std::string& scope, const std::vector<int>& answer);

 private:
  using Volume = std::shared_ptr<Automaton>;

  Volume current(const std::string& scope);
  Volume begin(const std::string& scope);
  void extend(Automaton& volume, int token);
  Volume drop();

  size_t limit_, size_ = 0;
  int64_t version_ = 0;
  std::vector<std::pair<std::string, Volume>> volumes_;  // the one begun first comes first
};

struct SuffixRule {
  double factor = 1.0, offset = 2.0;  // a draft is at most floor(matched * factor + offset) deep
};

// One sequence's own text, and earlier answers (memory may be null): drafters/suffix.py.
class SuffixText : public Source {
 public:
  SuffixText(const std::vector<int>& prompt, std::shared_ptr<Memory> memory, SuffixRule rule);
  int start() override;
  void ahead(int place, int most, std::vector<Guess>* found) override;
  int after(int place, int token) override;
  void extend(const std::vector<int>& tokens) override;
  void enter(const std::string& scope);  // before it the memory is neither read nor told
  void remember();                       // hands the answer to the memory
  size_t size_bytes() const { return text_.size_bytes() + sizeof(int) * answer_.capacity(); }

 private:
  struct Cursor {
    Automaton* source;
    Automaton::Cursor at;
  };
  static constexpr size_t kSources = 1 + Memory::kVolumes;
  struct Place {
    std::array<Cursor, kSources> cursors;  // the longest match first
    size_t count = 0;
    int depth = 0;
  };

  static void add(Place* place, Automaton* source, Automaton::Cursor at);
  void search();
  Guess best(const Cursor& cursor);
  void likely(const Cursor& cursor, int most, std::vector<Guess>* found);

  Automaton text_;
  std::shared_ptr<Memory> memory_;
  SuffixRule rule_;
  std::optional<std::string> scope_;
  std::vector<int> answer_;  // empty without a memory
  std::vector<std::shared_ptr<Automaton>> volumes_;
  std::vector<Automaton::Cursor> ends_;  // of the answer in each volume
  int64_t version_ = 0;
  std::vector<Place> places_;
  int deepest_ = 0;
  Automaton::Ahead scratch_;
};

struct Slice {
  int length = 0, low = 0, high = 0;  // the places [low, high) where one context of `length` tokens stands
  bool empty() const { return low >= high; }
};

struct Continuations {
  int total = 0, distinct = 0;
  std::vector<std::pair<int, int>> commonest;  // token and count, by falling count, equal ones by rising id
};

// A store's arrays (drafters/storeindex.py), which somebody else keeps. Nothing in them is trusted.
class StoreIndex {
 public:
  static constexpr size_t kWidest = 8;   // continuations of a context that are told apart; the others only count
  static constexpr int kSample = 256;    // places of a frequent context that are looked at, evenly spread
  static constexpr size_t kCached = 4096;
  static constexpr int kEnd = -1;        // of a document

  // One of text16 and text32 is null; both hold each id plus one, and 0 for an end.
  struct Arrays {
    const uint16_t* text16;
    const uint32_t *text32, *places, *starts;
    int tokens, count, vocab;
  };

  explicit StoreIndex(const Arrays& arrays) : a_(arrays) {}
  Slice find(int token) const;
  Slice longer(const Slice& context, int token) const;  // those of its places where this token follows
  const Continuations& continuations(const Slice& context);

 private:
  int at(int place, int offset) const;
  Continuations count(const Slice& context) const;

  Arrays a_;
  std::unordered_map<uint64_t, Continuations> known_;
};

// Where one sequence's end stands in a store: drafters/store.py.
class StoreText : public Source {
 public:
  StoreText(std::shared_ptr<StoreIndex> index, int longest, int deepest, const std::vector<int>& prompt);
  int start() override;
  void ahead(int place, int most, std::vector<Guess>* found) override;
  int after(int place, int token) override;
  void extend(const std::vector<int>& tokens) override;

 private:
  struct Place {
    std::vector<Slice> contexts;  // those that the store knows, the longest first
    int depth = 0;
  };

  std::vector<Slice> longer(const std::vector<Slice>& contexts, int token) const;

  std::shared_ptr<StoreIndex> index_;
  size_t longest_;
  int deepest_;
  std::vector<Slice> contexts_;
  std::vector<Place> places_;
};

// The target's likeliest tokens behind each token, as it last said: drafters/recycle.py.
class RecycleTable {
 public:
  static constexpr int kFollowers = 8, kUnknown = -1;

  explicit RecycleTable(int vocab) : vocab_(vocab), table_(static_cast<size_t>(vocab) * kFollowers, kUnknown) {}
  void remember(int token, const std::vector<int>& followers);
  const int* of(int token) const;  // [8], best first; null where no row can be

 private:
  int vocab_;
  std::vector<int> table_;  // [V, 8]
};

// One sequence's last token, and how often the follower of each rank was right in it.
class RecycleText : public Source {
 public:
  explicit RecycleText(int last);
  void enter(std::shared_ptr<RecycleTable> table) { table_ = std::move(table); }  // before it nothing is known
  bool entered() const { return table_ != nullptr; }
  int start() override;
  void ahead(int place, int most, std::vector<Guess>* found) override;
  int after(int place, int token) override;
  void extend(const std::vector<int>& tokens) override;
  void remember(int token, const std::vector<int>& followers);

 private:
  const int* row(int token) const { return table_ ? table_->of(token) : nullptr; }

  std::shared_ptr<RecycleTable> table_;
  int last_;
  std::array<double, RecycleTable::kFollowers> tries_, kept_;
};

// What a drafting head said of each level of one draft: drafters/head.py. It holds for that draft alone.
class Levels : public Source {
 public:
  // chain: the head's own token of each level, behind which alone the next level was said, unless they are independent.
  void set(std::vector<std::vector<Guess>> levels, std::vector<int> chain, bool independent);
  void clear() { levels_.clear(); }
  int start() override { return levels_.empty() ? -1 : 0; }
  void ahead(int place, int most, std::vector<Guess>* found) override;
  int after(int place, int token) override;
  void extend(const std::vector<int>&) override { clear(); }

 private:
  std::vector<std::vector<Guess>> levels_;
  std::vector<int> chain_;
  bool independent_ = false;
};

}  // namespace outrider
