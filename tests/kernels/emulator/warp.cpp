/* cp.async, ldmatrix and mma.sync of emulator.h. */
#include "tests/kernels/emulator/emulator.h"

#include <cstdio>

namespace emulator {

void cp_async16(uint32_t to, const void *from, bool zero) {
  AsyncCopy copy = {shared_pointer(to, 16), {}, thread->groups};
  if (reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    fail("cp.async of 16 bytes from %p", from);
  }
  if (!zero) {
    memcpy(copy.data, from, sizeof copy.data);
  }
  memset(copy.to, 0xff, sizeof copy.data);
  thread->copies.push_back(copy);
}

void cp_async_commit() {
  thread->groups++;
}

void cp_async_wait(int groups_in_flight) {
  size_t kept = 0;
  for (const AsyncCopy &copy : thread->copies) {
    if (copy.group < thread->groups - groups_in_flight) {
      memcpy(copy.to, copy.data, sizeof copy.data);
      note_copy(copy.to);
      note_written(copy.to);
    } else {
      thread->copies[kept++] = copy;
    }
  }
  thread->copies.resize(kept);
}

namespace {

struct Ldmatrix {
  uint32_t address;
  uint32_t *out;
  bool transposed;
};

uint16_t element(const unsigned char *const *rows, int row, int column) {
  uint16_t value;
  memcpy(&value, rows[row] + column * 2, sizeof value);
  return value;
}

/* Passes over the 32 banks beyond the first that reading 8 rows of 16 bytes takes. */
int conflicts_of(const uint32_t *addresses) {
  int most = 0;
  for (int quad = 0; quad < 8; quad++) { // four banks each
    int n = 0;
    for (int row = 0; row < 8; row++) {
      bool repeated = false;
      for (int other = 0; other < row; other++) {
        repeated = repeated || addresses[other] == addresses[row];
      }
      n += !repeated && static_cast<int>(addresses[row] / 16 % 8) == quad;
    }
    most = std::max(most, n);
  }
  return most - 1;
}

void do_ldmatrix(Thread *const *lanes) {
  Ldmatrix *own[32];
  for (int i = 0; i < 32; i++) {
    own[i] = static_cast<Ldmatrix *>(lanes[i]->arguments);
  }
  counts.ldmatrix++;
  for (int matrix = 0; matrix < 4; matrix++) {
    const unsigned char *rows[8];
    uint32_t addresses[8];
    for (int row = 0; row < 8; row++) {
      addresses[row] = own[matrix * 8 + row]->address;
      rows[row] = static_cast<const unsigned char *>(shared_pointer(addresses[row], 16));
      require_copied(rows[row], lanes[0]);
    }
    counts.bank_conflicts += conflicts_of(addresses);
    for (int i = 0; i < 32; i++) {
      int g = i / 4, t = i % 4;
      uint32_t low = own[i]->transposed ? element(rows, 2 * t, g) : element(rows, g, 2 * t);
      uint32_t high =
          own[i]->transposed ? element(rows, 2 * t + 1, g) : element(rows, g, 2 * t + 1);
      own[i]->out[matrix] = low | high << 16;
    }
  }
}

struct Mma {
  float *c;
  const uint32_t *a, *b;
  bool is_bf16;
};

float bf16_value(uint32_t bits) {
  return __uint_as_float(bits << 16);
}

const float *fp16_values() {
  static std::vector<float> values;
  if (values.empty()) {
    for (uint32_t i = 0; i < 65536; i++) {
      values.push_back(__half2float(emulated_bits<__half>(static_cast<uint16_t>(i))));
    }
  }
  return values.data();
}

void unpack(uint32_t bits, bool is_bf16, float *low, float *high) {
  *low = element_value(bits & 0xffff, is_bf16);
  *high = element_value(bits >> 16, is_bf16);
}

void do_mma(Thread *const *lanes) {
  float a[16][16], b[8][16]; // b by column
  counts.mma++;
  for (int i = 0; i < 32; i++) {
    const Mma *own = static_cast<const Mma *>(lanes[i]->arguments);
    int g = i / 4, t = i % 4;
    for (int part = 0; part < 4; part++) {
      float *at = &a[g + part % 2 * 8][2 * t + part / 2 * 8];
      unpack(own->a[part], own->is_bf16, at, at + 1);
    }
    for (int part = 0; part < 2; part++) {
      float *at = &b[g][2 * t + part * 8];
      unpack(own->b[part], own->is_bf16, at, at + 1);
    }
  }
  for (int i = 0; i < 32; i++) {
    const Mma *own = static_cast<const Mma *>(lanes[i]->arguments);
    for (int part = 0; part < 4; part++) {
      const float *row = a[i / 4 + part / 2 * 8], *column = b[2 * (i % 4) + part % 2];
      float sum = 0;
      for (int k = 0; k < 16; k++) {
        sum += row[k] * column[k];
      }
      own->c[part] += sum;
    }
  }
}

} // namespace

float element_value(uint32_t bits, bool is_bf16) {
  return is_bf16 ? bf16_value(bits) : fp16_values()[bits];
}

void ldmatrix_x4(uint32_t (&out)[4], uint32_t address, bool transposed) {
  Ldmatrix arguments = {address, out, transposed};
  warp_operation(do_ldmatrix, 0xffffffffu, &arguments);
}

void mma_16816(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], bool is_bf16) {
  Mma arguments = {c, a, b, is_bf16};
  warp_operation(do_mma, 0xffffffffu, &arguments);
}

} // namespace emulator
