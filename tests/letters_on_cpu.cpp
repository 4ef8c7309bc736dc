// Runs the kernels of src/groc/nn/letter_*.cu on a CPU, one thread behind the other, so that they are tested where there
// is no GPU.

#include <algorithm>
#include <cmath>
#include <cstring>

#define ON_CPU
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__
using std::min;

struct uint4 {
    unsigned x, y, z, w;
};
struct Place {
    int x, y;
};
static Place threadIdx, blockIdx, blockDim;
uint4 memory[1 << 14];

// Threads up to here first, all of them; then again, and on: what they do before it is the same a second time.
struct Waiting {};
static bool wait = false, waited = false;
static void __syncthreads() {
    waited |= wait;
    if (wait) throw Waiting();
}

static float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

static unsigned __funnelshift_r(unsigned low, unsigned high, int by) {
    return ((static_cast<unsigned long long>(high) << 32 | low) >> by) & 0xffffffffu;
}

template <typename Function>
static unsigned in_pairs(unsigned a, unsigned b, Function function) {
    unsigned short first[2], second[2], result[2];
    std::memcpy(first, &a, 4), std::memcpy(second, &b, 4);
    for (int i = 0; i < 2; i++) {
        _Float16 x, y;
        std::memcpy(&x, first + i, 2), std::memcpy(&y, second + i, 2);
        result[i] = function(x, y);
    }
    unsigned both;
    std::memcpy(&both, result, 4);
    return both;
}

static unsigned short bits_of(_Float16 value) {
    unsigned short bits;
    std::memcpy(&bits, &value, 2);
    return bits;
}

static unsigned sum_of(unsigned a, unsigned b) {
    return in_pairs(a, b, [](_Float16 x, _Float16 y) { return bits_of(x + y); });
}

static unsigned larger_of(unsigned a, unsigned b) {
    return in_pairs(a, b, [](_Float16 x, _Float16 y) { return bits_of(y != y || y > x ? y : x); });
}

static unsigned above(unsigned a, unsigned b) {
    return in_pairs(a, b, [](_Float16 x, _Float16 y) -> unsigned short { return x > y ? 0xffff : 0; });
}

static float from_half(unsigned bits) {
    _Float16 value;
    std::memcpy(&value, &bits, 2);
    return value;
}

static unsigned to_bfloats(float first, float second) {
    auto rounded = [](float value) {
        unsigned bits;
        std::memcpy(&bits, &value, 4);
        return bits + 0x7fff + (bits >> 16 & 1) >> 16;
    };
    return rounded(first) | rounded(second) << 16;
}

#include "letters.cuh"
#include "letter_maxima.cu"
#include "letter_histograms.cu"

// Whether nothing was written beyond the memory that was asked for. Blocks begin with other bytes than zeros there.
template <typename Kernel>
static bool launch(int grid_x, int grid_y, int threads, int bytes, Kernel kernel) {
    blockDim = {threads, 1};
    bool inside = true;
    for (blockIdx.y = 0; blockIdx.y < grid_y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < grid_x; blockIdx.x++) {
            std::memset(memory, 0x5a, sizeof(memory));
            waited = false;
            for (bool first : {true, false}) {
                wait = first;
                if (!first && !waited) break;
                for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) try {
                        kernel();
                    } catch (Waiting) {
                    }
            }
            const unsigned char* all = reinterpret_cast<unsigned char*>(memory);
            inside &= std::all_of(all + bytes, all + sizeof(memory), [](unsigned char one) { return one == 0x5a; });
        }
    return inside;
}

extern "C" bool run_letter_maxima(
    int grid_x, int grid_y, int threads, int bytes, const char* table, const byte* codes, const int* lengths,
    const byte* rare, const float* shifts, const int* widths, unsigned short* features, byte* where,
    int strings, int share, int stride, int offsets, int kept, int filters
) {
    return launch(grid_x, grid_y, threads, bytes, [&] {
        letter_maxima(
            table, codes, lengths, rare, shifts, widths, features, where, strings, share, stride, offsets, kept, filters
        );
    });
}

extern "C" bool run_letter_histograms(
    int grid_x, int grid_y, int threads, int bytes, const unsigned short* gradient, const byte* where,
    const byte* codes, const int* widths, float* tables, float* rares, float* shifts,
    int strings, int share, int stride, int offsets, int characters, int limit, int filters
) {
    return launch(grid_x, grid_y, threads, bytes, [&] {
        letter_histograms(
            gradient, where, codes, widths, tables, rares, shifts, strings, share, stride, offsets, characters, limit, filters
        );
    });
}
