#include "store/store.h"

namespace pillion::store {

void Batch::Put(uint8_t kind, std::string_view key, std::string_view value) {
  size_t begin = data_.size();
  data_.push_back(static_cast<char>(kind));
  data_.append(key);
  size_t value_begin = data_.size();
  data_.append(value);
  entries_.push_back({begin, value_begin, data_.size(), false});
}

void Batch::Delete(uint8_t kind, std::string_view key) {
  size_t begin = data_.size();
  data_.push_back(static_cast<char>(kind));
  data_.append(key);
  entries_.push_back({begin, data_.size(), data_.size(), true});
}

void Batch::Clear() {
  data_.clear();
  entries_.clear();
}

Batch::Entry Batch::entry(size_t index) const {
  const Range& range = entries_[index];
  std::string_view data = data_;
  return {range.is_delete, data.substr(range.key_begin, range.value_begin - range.key_begin),
          data.substr(range.value_begin, range.end - range.value_begin)};
}

}  // namespace pillion::store
