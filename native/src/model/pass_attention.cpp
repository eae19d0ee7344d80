// Attention of a pass: which rows meet which keys, and where a tree's rows find their ancestors.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "pass.h"

namespace outrider {

// Few rows: a unit is a chunk of positions, for one query head where chunks are too few to go round. Many rows: a
// unit is a tile of rows, the last first, since they see the most. Units are taken as threads come; no result depends
// on who takes which.
void Pass::plan_units() {
  int64_t positions = 0;
  for (const PassItem& item : items_) positions += item.sequence->rows.back().position + 1;
  const int step = by_chunk_ && positions * c_.kv_heads < 4 * threads_ * kChunk ? 1 : group_;
  for (const PassItem& item : items_) {
    const int rows = static_cast<int>(item.sequence->rows.size());
    for (int h = 0; h < c_.kv_heads; ++h) {
      if (by_chunk_) {
        for (int c = 0; c < item.chunks; ++c)
          for (int g = 0; g < group_; g += step) units_.push_back({&item, h, g, g + step, 0, rows, c, c + 1});
      } else {
        for (int r = (rows - 1) / kRowTile * kRowTile; r >= 0; r -= kRowTile)
          units_.push_back({&item, h, 0, group_, r, std::min(rows, r + kRowTile), 0, item.chunks});
      }
    }
  }
}

// The next unit of this thread's share, or of another's once its own is done; -1 where there is none.
int Pass::take_unit(int index, int layer) {
  const int count = static_cast<int>(units_.size());
  for (int t = 0; t < threads_; ++t) {
    const int owner = (index + t) % threads_;
    const int begin = share(count, owner, threads_), end = share(count, owner + 1, threads_);
    std::atomic<int>& next = next_unit_[static_cast<size_t>(layer * threads_ + owner)];
    if (begin + next.load(std::memory_order_relaxed) >= end) continue;
    const int unit = begin + next.fetch_add(1, std::memory_order_relaxed);
    if (unit < end) return unit;
  }
  return -1;
}

// Attention computes on what the caches hold, and memory would rest: meanwhile it brings the weights that come next.
void Pass::look_ahead(ThreadSpace& space, int index, int threads, const Layer& layer) const {
  space.ahead = {};
  if (!by_chunk_) return;
  const auto [first, last] = forward_columns(index, threads);
  size_t left = kAheadBytes, place = ThreadSpace::kBlocksAhead;
  const auto add = [&](const Packed& m, int begin, int end) {
    const size_t bytes = std::min(left, static_cast<size_t>(end - begin) * m.panel_bytes);
    const uint8_t* from = m.data + static_cast<size_t>(begin) * m.panel_bytes;
    space.ahead[place++] = {from, from + bytes};
    left -= bytes;
  };
  add(layer.o, share(layer.o.panels, index, threads), share(layer.o.panels, index + 1, threads));
  add(layer.gate, first / kLanes, last / kLanes);
  add(layer.up, first / kLanes, last / kLanes);
}

// And before those, the keys and values of the thread's next unit, where it is of another chunk.
void Pass::look_ahead(ThreadSpace& space, int unit, int end, int layer) const {
  if (!by_chunk_ || unit + 1 == end) return;
  const Unit &now = units_[static_cast<size_t>(unit)], &next = units_[static_cast<size_t>(unit) + 1];
  if (next.item == now.item && next.head == now.head && next.first == now.first) return;  // the same keys
  const int blocks = static_cast<int>(next.item->sequence->table.blocks()), first = next.first * (kChunk / kCacheBlock);
  for (int b = first; b < std::min(blocks, first + kChunk / kCacheBlock); ++b) {
    const uint8_t* keys = next.item->sequence->table.block(b * kCacheBlock) + layout_.keys_at(layer, next.head);
    space.ahead[static_cast<size_t>(b - first)] = {keys, keys + 2 * layout_.head_bytes()};  // the values follow
  }
}

void Pass::attend(int index, int threads, int layer) {
  ThreadSpace& space = *w_.threads[static_cast<size_t>(index)];
  look_ahead(space, index, threads, model_.layers[static_cast<size_t>(layer)]);
  const int end = share(static_cast<int>(units_.size()), index + 1, threads);
  for (int u = take_unit(index, layer); u >= 0; u = take_unit(index, layer)) {
    if (u < end) look_ahead(space, u, end, layer);
    attend_unit(space, units_[static_cast<size_t>(u)], layer);
  }
}

void Pass::attend_unit(ThreadSpace& space, const Unit& unit, int layer) {
  const std::vector<Row>& rows = unit.item->sequence->rows;
  int shared[kChunkRows];
  for (int chunk = unit.first; chunk < unit.last; ++chunk) {
    // Side memory holds only uncommitted positions: before them a tree's rows read what all rows read, together.
    const bool uncommitted = (chunk + 1) * kChunk > unit.item->sequence->length;
    int count = 0;
    for (int r = unit.begin; r < unit.end; ++r) {
      const Row& row = rows[static_cast<size_t>(r)];
      if (row.position < chunk * kChunk) continue;
      if (row.patched && uncommitted) {
        attend_rows(space, unit, layer, chunk, &r, 1, true);
      } else {
        shared[count++] = r;
      }
    }
    if (count) attend_rows(space, unit, layer, chunk, shared, count, false);
  }
}

void Pass::attend_rows(ThreadSpace& space, const Unit& unit, int layer, int chunk, const int* rows, int count, bool patched) {
  const int d = c_.head_dim, heads = unit.to - unit.from;
  const void *keys[kChunkGroups] = {}, *values[kChunkGroups] = {};
  const float* query[kChunkRows * kMaxGroup];
  int visible[kChunkRows * kMaxGroup];
  point_chunk(*unit.item, layer, unit.head, chunk, keys, values);
  if (patched) patch_chunk(space, *unit.item, rows[0], layer, unit.head, chunk, keys, values);
  for (int i = 0; i < count; ++i) {
    const int position = unit.item->sequence->rows[static_cast<size_t>(rows[i])].position;
    const float* q = projected(unit.item->first_row + rows[i]) + (unit.head * group_ + unit.from) * d;
    for (int g = 0; g < heads; ++g) {
      query[i * heads + g] = q + g * d;
      visible[i * heads + g] = std::min(kChunk, position - chunk * kChunk + 1);
    }
  }
  FetchList ahead{space.ahead.data(), space.ahead.data() + space.ahead.size()};
  const AttendTile tile{count * heads, d, query, visible, keys, values, space.weights.get(), space.top.get(), space.sum.get(), space.out.get(), &ahead};
  k_.attend(tile, model_.cache_type);
  for (int i = 0; i < count; ++i)
    for (int g = 0; g < heads; ++g) {
      const int at = i * heads + g;
      keep_chunk(unit, rows[i], unit.head * group_ + unit.from + g, chunk, space.top.get()[at], space.sum.get()[at], space.out.get() + at * d);
    }
}

// By chunk, every chunk's result has a place of its own until they are merged in order; by row, they come in order.
void Pass::keep_chunk(const Unit& unit, int row, int head, int chunk, float top, float sum, const float* out) {
  const size_t part = this->part(*unit.item, row, head, chunk);
  float* to = w_.part_out.get() + part * static_cast<size_t>(c_.head_dim);
  if (!by_chunk_ && chunk > 0) return k_.merge(&w_.part_top.get()[part], &w_.part_sum.get()[part], to, top, sum, out, c_.head_dim);
  w_.part_top.get()[part] = top;
  w_.part_sum.get()[part] = sum;
  std::memcpy(to, out, static_cast<size_t>(c_.head_dim) * sizeof(float));
}

// Columns [begin, end) of the projections, whole panels: a rotation stays inside its pair, so any thread can do its own.
void Pass::place_projections(ThreadSpace& space, int begin, int end, int layer) {
  const int q = c_.heads * c_.head_dim, kv = c_.kv_heads * c_.head_dim;
  for (int r = 0; r < rows_; ++r) {
    place_queries(r, std::min(begin, q), std::min(end, q));
    place_keys(space, r, std::clamp(begin - q, 0, kv), std::clamp(end - q, 0, kv), layer);
    place_values(space, r, std::clamp(begin - q - kv, 0, kv), std::clamp(end - q - kv, 0, kv), layer);
  }
}

void Pass::place_queries(int r, int begin, int end) {
  const int d = c_.head_dim, position = row_[static_cast<size_t>(r)]->position;
  const float factor = 1.0f / std::sqrt(static_cast<float>(d));
  for (int i = begin; i < end;) {
    const int in = i % d, n = std::min(d - in, end - i);
    float* q = projected(r) + i;
    k_.rope(q, rope_.cosines(position) + in, rope_.sines(position) + in, factor, n, q);
    i += n;
  }
}

// Rotates, rounds to the cache type, and puts the elements where every row will read them.
void Pass::place_keys(ThreadSpace& space, int r, int begin, int end, int layer) {
  const int d = c_.head_dim;
  const Row& row = *row_[static_cast<size_t>(r)];
  const PassItem& item = *of_[static_cast<size_t>(r)];
  for (int i = begin; i < end;) {
    const int head = i / d, in = i % d, n = std::min(d - in, end - i);
    k_.rope(projected(r) + c_.heads * d + i, rope_.cosines(row.position) + in, rope_.sines(row.position) + in, 1.0f, n, space.row.get());
    const uint8_t* elements = round_to_cache(space, space.row.get(), n);
    if (row.side >= 0) {
      std::memcpy(side_of(item, row.side, layer, head) + static_cast<size_t>(in) * layout_.element, elements, static_cast<size_t>(n) * layout_.element);
    } else {
      write_key(layout_, item.sequence->table.block(row.position) + layout_.keys_at(layer, head), row.position, in, n, elements);
    }
    i += n;
  }
}

void Pass::place_values(ThreadSpace& space, int r, int begin, int end, int layer) {
  const int d = c_.head_dim;
  const Row& row = *row_[static_cast<size_t>(r)];
  const PassItem& item = *of_[static_cast<size_t>(r)];
  for (int i = begin; i < end;) {
    const int head = i / d, in = i % d, n = std::min(d - in, end - i);
    const uint8_t* elements = round_to_cache(space, projected(r) + (c_.heads + c_.kv_heads) * d + i, n);
    uint8_t* to = row.side >= 0 ? side_of(item, row.side, layer, head) + layout_.side_bytes() / 2
                                : item.sequence->table.block(row.position) + layout_.values_at(layer, head) + layout_.value_offset(row.position);
    std::memcpy(to + static_cast<size_t>(in) * layout_.element, elements, static_cast<size_t>(n) * layout_.element);
    i += n;
  }
}

const uint8_t* Pass::round_to_cache(ThreadSpace& space, const float* x, int count) const {
  if (model_.cache_type == CacheType::F32) return reinterpret_cast<const uint8_t*>(x);
  k_.round_to_f16(x, count, reinterpret_cast<uint16_t*>(space.element.get()));
  return space.element.get();
}

uint8_t* Pass::side_of(const PassItem& item, int slot, int layer, int head) const {
  return item.sequence->side.get() + static_cast<size_t>((slot * c_.layers + layer) * c_.kv_heads + head) * layout_.side_bytes();
}

void Pass::point_chunk(const PassItem& item, int layer, int head, int chunk, const void** keys, const void** values) const {
  const size_t group = static_cast<size_t>(kLanes * c_.head_dim) * layout_.element;
  const int blocks = static_cast<int>(item.sequence->table.blocks());
  for (int g = 0; g < kChunkGroups; ++g) {
    const int position = chunk * kChunk + g * kLanes;
    if (position / kCacheBlock >= blocks) return;
    const uint8_t* block = item.sequence->table.block(position);
    const size_t inside = static_cast<size_t>(position % kCacheBlock / kLanes) * group;
    keys[g] = block + layout_.keys_at(layer, head) + inside;
    values[g] = block + layout_.values_at(layer, head) + inside;
  }
}

// A row below a second child reads its ancestors from side memory: the groups of 16 positions that hold some are
// copied, and the ancestors put at their absolute positions, so that the row computes what a chain would.
void Pass::patch_chunk(ThreadSpace& space, const PassItem& item, int r, int layer, int head, int chunk, const void** keys,
                       const void** values) const {
  const size_t group = static_cast<size_t>(kLanes * c_.head_dim) * layout_.element, half = layout_.side_bytes() / 2;
  const std::vector<Row>& rows = item.sequence->rows;
  bool copied[kChunkGroups] = {};
  for (int n = r; n >= 0; n = rows[static_cast<size_t>(n)].parent) {
    const Row& row = rows[static_cast<size_t>(n)];
    if (row.side < 0 || row.position / kChunk != chunk) continue;
    const int g = row.position % kChunk / kLanes;
    uint8_t *k = space.patches.get() + 2 * static_cast<size_t>(g) * group, *v = k + group;
    if (!copied[g]) {
      std::memcpy(k, keys[g], group);
      std::memcpy(v, values[g], group);
      keys[g] = k, values[g] = v;
      copied[g] = true;
    }
    const uint8_t* from = side_of(item, row.side, layer, head);
    write_key(layout_, k, row.position % kLanes, 0, c_.head_dim, from);
    std::memcpy(v + layout_.value_offset(row.position % kLanes), from + half, half);
  }
}

}  // namespace outrider
