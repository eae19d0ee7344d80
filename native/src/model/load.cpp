// Reads tensors slice by slice and packs them into one arena, in the order in which a pass uses them.
// pread, not mmap: a file that is cut while we read gives an error instead of a signal, and peak memory is the arena.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "outrider/model.h"
#include "outrider/pool.h"

namespace outrider {
namespace {

void require(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument(what);
}

class File {
 public:
  explicit File(const std::string& path) : path_(path), fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
  }
  ~File() { close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool read(uint8_t* to, size_t bytes, int64_t offset) const {
    while (bytes) {
      const ssize_t got = pread(fd_, to, bytes, offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      to += got, offset += got, bytes -= static_cast<size_t>(got);
    }
    return true;
  }
  [[noreturn]] void fail(const std::string& tensor) const {
    throw std::runtime_error("cannot read tensor " + tensor + " of " + path_ + ": the file is shorter than its header says");
  }

 private:
  std::string path_;
  int fd_;
};

}  // namespace

class Loader {
 public:
  Loader(Model& model, const std::string& path, const std::vector<TensorSource>& tensors, int threads)
      : model_(model), file_(path), threads_(threads) {
    for (const TensorSource& t : tensors) tensors_[t.name] = &t;
  }

  void load() {
    const ModelConfig& c = model_.config;
    plan();
    uint8_t* const arena = model_.arena_.take(model_.arena_bytes_);
    for (Item& item : items_) {
      uint8_t* at = arena + item.offset;
      if (item.vector) {
        read_vector(*item.source, reinterpret_cast<float*>(at));
        *item.vector = reinterpret_cast<const float*>(at);
      } else {
        item.matrix->data = at;
        read_matrix(*item.source, *item.matrix, at);
      }
    }
    check_factors();
    if (c.tied_head) model_.head = model_.embedding;
  }

 private:
  struct Item {
    const TensorSource* source;
    Packed* matrix;
    const float** vector;
    size_t offset;
  };

  const TensorSource& find(const std::string& name, std::vector<int64_t> shape) {
    const auto found = tensors_.find(name);
    require(found != tensors_.end(), "tensor " + name + " is missing");
    require(found->second->shape == shape, "tensor " + name + " has another shape than the architecture says");
    require(found->second->offset >= 0, "tensor " + name + " has a negative offset");
    return *found->second;
  }
  size_t place(size_t bytes) {
    const size_t at = model_.arena_bytes_;
    model_.arena_bytes_ = (at + bytes + 63) / 64 * 64;
    return at;
  }
  void matrix(const std::string& name, int rows, int cols, Packed* to) {
    const TensorSource& source = find(name, {rows, cols});
    *to = packed_layout(model_.config.dense ? Format::F32 : format_of(source.type), rows, cols);
    items_.push_back({&source, to, nullptr, place(packed_bytes(*to))});
  }
  void vector(const std::string& name, int count, const float** to) {
    const TensorSource& source = find(name, {count});
    require(source.type == "F32", "tensor " + name + " must be F32");
    items_.push_back({&source, nullptr, to, place(static_cast<size_t>(count) * 4)});
  }

  void plan() {
    const ModelConfig& c = model_.config;
    const int q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    model_.layers.resize(static_cast<size_t>(c.layers));
    for (int i = 0; i < c.layers; ++i) {
      Layer& l = model_.layers[static_cast<size_t>(i)];
      const std::string p = "blk." + std::to_string(i) + ".";
      vector(p + "attn_norm.weight", c.hidden, &l.attn_norm);
      matrix(p + "attn_q.weight", q, c.hidden, &l.q);
      matrix(p + "attn_k.weight", kv, c.hidden, &l.k);
      matrix(p + "attn_v.weight", kv, c.hidden, &l.v);
      matrix(p + "attn_output.weight", c.hidden, q, &l.o);
      vector(p + "ffn_norm.weight", c.hidden, &l.ffn_norm);
      matrix(p + "ffn_gate.weight", c.feed_forward, c.hidden, &l.gate);
      matrix(p + "ffn_up.weight", c.feed_forward, c.hidden, &l.up);
      matrix(p + "ffn_down.weight", c.hidden, c.feed_forward, &l.down);
    }
    vector("output_norm.weight", c.hidden, &model_.output_norm);
    matrix("token_embd.weight", c.vocab, c.hidden, &model_.embedding);
    if (!c.tied_head) matrix("output.weight", c.vocab, c.hidden, &model_.head);
    if (!c.rope_factors.empty()) vector(c.rope_factors, c.head_dim / 2, &model_.rope_factors);
    model_.weight_bytes = model_.arena_bytes_;
  }

  void check_factors() const {
    for (int i = 0; model_.rope_factors && i < model_.config.head_dim / 2; ++i)
      require(model_.rope_factors[i] >= 1e-6f && model_.rope_factors[i] <= 1e6f,
              "tensor " + model_.config.rope_factors + " holds " + std::to_string(model_.rope_factors[i]) +
                  "; a divisor of a rotation is between 1e-6 and 1e6");
  }

  void read_vector(const TensorSource& source, float* to) {
    if (!file_.read(reinterpret_cast<uint8_t*>(to), static_cast<size_t>(source.shape[0]) * 4, source.offset))
      file_.fail(source.name);
  }

  void read_matrix(const TensorSource& source, const Packed& m, uint8_t* to) {
    const Format format = format_of(source.type);
    const size_t row_bytes = source_row_bytes(format, m.cols);
    const int slice = std::max(1, static_cast<int>((1 << 18) / (row_bytes * kLanes)));  // panels read at once
    std::atomic<bool> failed{false};
    // Inside the region nothing may throw, so all memory is taken before it.
    std::vector<Buffer<uint8_t>> slices(static_cast<size_t>(threads_));
    std::vector<Buffer<float>> scratches(static_cast<size_t>(threads_));
    for (int t = 0; t < threads_; ++t) {
      slices[static_cast<size_t>(t)].reserve(row_bytes * kLanes * static_cast<size_t>(slice));
      scratches[static_cast<size_t>(t)].reserve(static_cast<size_t>(kLanes) * static_cast<size_t>(m.cols));
    }
    Pool::shared().run(threads_, [&](int index, int threads) {
      const Buffer<uint8_t>& rows = slices[static_cast<size_t>(index)];
      float* scratch = scratches[static_cast<size_t>(index)].get();
      for (int p = index * slice; p < m.panels && !failed; p += threads * slice) {
        const int first = p * kLanes, last = std::min(m.rows, (p + slice) * kLanes);
        if (!file_.read(rows.get(), row_bytes * static_cast<size_t>(last - first),
                        source.offset + static_cast<int64_t>(row_bytes) * first)) {
          failed = true;
          return;
        }
        for (int row = first; row < last; row += kLanes)
          pack_panel(format, model_.config.dense, rows.get() + row_bytes * static_cast<size_t>(row - first),
                     std::min(kLanes, last - row), m.cols, scratch, to + m.panel_bytes * static_cast<size_t>(row / kLanes));
      }
    });
    if (failed) file_.fail(source.name);
  }

  Model& model_;
  File file_;
  int threads_;
  std::unordered_map<std::string, const TensorSource*> tensors_;
  std::vector<Item> items_;
};

Model::Model(const ModelConfig& c, const std::string& path, const std::vector<TensorSource>& tensors, int threads)
    : config(c), cache_type(c.dense ? CacheType::F32 : CacheType::F16) {
  const std::pair<const char*, int> sizes[] = {
      {"layers", c.layers},     {"hidden size", c.hidden},             {"heads", c.heads}, {"key heads", c.kv_heads},
      {"head size", c.head_dim}, {"feed-forward size", c.feed_forward}, {"vocabulary", c.vocab}, {"context", c.context}};
  for (const auto& [name, n] : sizes)
    require(n > 0 && n < (1 << 24), std::string(name) + " is " + std::to_string(n) + "; it must be between 1 and 16,777,215");
  require(c.hidden % kBlock == 0, "hidden size " + std::to_string(c.hidden) + " is not a multiple of 32");
  require(c.feed_forward % kBlock == 0, "feed-forward size " + std::to_string(c.feed_forward) + " is not a multiple of 32");
  require(c.head_dim % kLanes == 0 && c.head_dim <= kMaxHeadDim,
          "head size " + std::to_string(c.head_dim) + " is not a multiple of 16 up to " + std::to_string(kMaxHeadDim));
  require(static_cast<int64_t>(c.heads) * c.head_dim < (1 << 24), "heads times head size must be under 16,777,216");
  require(c.heads * c.head_dim % kBlock == 0, "heads times head size is not a multiple of 32");
  require(c.heads % c.kv_heads == 0, "the number of heads is not a multiple of the number of key heads");
  require(c.heads / c.kv_heads <= kMaxGroup, "more than 64 heads share a key head");
  require(c.context <= (1 << 20), "context " + std::to_string(c.context) + " is above 1,048,576");
  Loader(*this, path, tensors, threads).load();
}

}  // namespace outrider
