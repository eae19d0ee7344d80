// Packs a head's tensors into one arena, in the order in which a draft uses them.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "outrider/head.h"

namespace outrider {
namespace {

void require(bool ok, const std::string& what) {
  if (!ok) throw std::invalid_argument(what);
}

class Packer {
 public:
  Packer(const std::vector<HeadTensor>& tensors, bool dense) : tensors_(tensors), dense_(dense) {}

  const HeadTensor& find(const std::string& name, int rows, int cols) const {
    for (const HeadTensor& t : tensors_) {
      if (t.name != name) continue;
      const size_t bytes = cols == 0 ? static_cast<size_t>(rows) * 4 : source_row_bytes(format_of(t.type), cols) * static_cast<size_t>(rows);
      require(t.rows == rows && t.cols == cols && t.bytes == bytes, "tensor " + name + " has another shape than the head says");
      return t;
    }
    throw std::invalid_argument("tensor " + name + " is missing");
  }
  void vector(const std::string& name, int count, const float** to) {
    const HeadTensor& t = find(name, count, 0);
    require(t.type == "F32", "tensor " + name + " must be F32");
    items_.push_back({&t, nullptr, to, place(t.bytes)});
  }
  void matrix(const std::string& name, int rows, int cols, Packed* to) {
    const HeadTensor& t = find(name, rows, cols);
    const Format format = format_of(t.type);
    require(!is_quantised(format) || cols % kBlock == 0, "tensor " + name + " has rows that are no multiple of 32");
    *to = packed_layout(dense_ ? Format::F32 : format, rows, cols);
    items_.push_back({&t, to, nullptr, place(packed_bytes(*to))});
  }
  void pack(Arena& arena) const {
    uint8_t* const base = arena.take(bytes_);
    for (const Item& item : items_) {
      uint8_t* at = base + item.offset;
      if (item.vector) {
        std::memcpy(at, item.source->data, item.source->bytes);
        *item.vector = reinterpret_cast<const float*>(at);
        continue;
      }
      Packed& m = *item.matrix;
      m.data = at;
      const Format format = format_of(item.source->type);
      const size_t row_bytes = source_row_bytes(format, m.cols);
      const Buffer<float> scratch(static_cast<size_t>(kLanes) * static_cast<size_t>(m.cols));
      for (int row = 0; row < m.rows; row += kLanes)
        pack_panel(format, dense_, item.source->data + row_bytes * static_cast<size_t>(row), std::min(kLanes, m.rows - row), m.cols,
                   scratch.get(), at + m.panel_bytes * static_cast<size_t>(row / kLanes));
    }
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Item {
    const HeadTensor* source;
    Packed* matrix;
    const float** vector;
    size_t offset;
  };
  size_t place(size_t bytes) {
    const size_t at = bytes_;
    bytes_ = (at + bytes + 63) / 64 * 64;
    return at;
  }

  const std::vector<HeadTensor>& tensors_;
  bool dense_;
  size_t bytes_ = 0;
  std::vector<Item> items_;
};

}  // namespace

HeadWeights::HeadWeights(const HeadConfig& c, const std::vector<HeadTensor>& tensors, bool dense) {
  Packer packer(tensors, dense);
  const int taps = static_cast<int>(c.taps.size()), q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim, h = c.hidden;
  packer.vector("tap_norm", taps * h, &tap_norm);
  if (c.chain) {
    packer.matrix("fc", h, taps * h, &fc);
    packer.vector("embed_norm", h, &embed_norm);
    packer.vector("state_norm", h, &state_norm);
    packer.matrix("q_proj", q, 2 * h, &this->q);
    packer.matrix("k_proj", kv, 2 * h, &k);
    packer.matrix("v_proj", kv, 2 * h, &v);
    packer.matrix("o_proj", h, q, &o);
    packer.vector("ffn_norm", h, &ffn_norm);
    packer.matrix("gate", c.feed_forward, h, &gate);
    packer.matrix("up", c.feed_forward, h, &up);
    packer.matrix("down", h, c.feed_forward, &down);
    packer.vector("out_norm", h, &out_norm);
  }
  blocks.resize(c.chain ? 0 : static_cast<size_t>(c.depth));
  for (size_t i = 0; i < blocks.size(); ++i) packer.matrix("heads." + std::to_string(i + 1), h, h, &blocks[i]);
  packer.matrix("head", c.draft_vocab, h, &head);
  const HeadTensor& source = packer.find("ids", c.draft_vocab, 0);
  require(source.type == "I32", "tensor ids must be I32");
  packer.pack(arena_);
  ids.reserve(static_cast<size_t>(head.panels * kLanes));
  std::memcpy(ids.get(), source.data, source.bytes);
  bytes = packer.bytes();
}

}  // namespace outrider
