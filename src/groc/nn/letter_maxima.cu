// See letters.cuh.

constexpr int EACH = BLOCK / LANES, PAIRS = EACH / 2;  // filters of a thread: scores are added up in pairs of halves

struct alignas(4 * PAIRS) Pairs {
    unsigned of[PAIRS];
};

struct alignas(EACH) Places {
    byte of[EACH];
};

#ifndef ON_CPU  // tests run the kernels on a CPU, with these few functions of their own
__device__ __forceinline__ unsigned sum_of(unsigned a, unsigned b) {
    unsigned sum;
    asm("add.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

// What is not a number stays so, that it be found.
__device__ __forceinline__ unsigned larger_of(unsigned a, unsigned b) {
    unsigned larger;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}

// All bits of a half where the first is above the second, else none.
__device__ __forceinline__ unsigned above(unsigned a, unsigned b) {
    unsigned mask;
    asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(mask) : "r"(a), "r"(b));
    return mask;
}

__device__ __forceinline__ float from_half(unsigned bits) {
    float value;
    asm("{.reg .f16 a; .reg .b16 b; mov.b32 {a, b}, %1; cvt.f32.f16 %0, a;}" : "=f"(value) : "r"(bits));
    return value;
}

__device__ __forceinline__ unsigned to_bfloats(float first, float second) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(first), "f"(second));
    return pair;
}
#endif

// The best scores so far, and their positions: two halves in a word.
struct Best {
    unsigned scores[PAIRS], places[PAIRS];
};

// The table lies here in bytes: `entry` from one character to the next, `row` from one offset to the next.
template <int WIDTH>
__device__ __forceinline__ Best best_of_string(
    const char* table, int entry, int row, const byte* codes, int length
) {
    Best best;
#pragma unroll
    for (int pair = 0; pair < PAIRS; pair++) best.scores[pair] = 0xfbfffbff, best.places[pair] = 0;  // the least
    int at[WIDTH], next = codes[WIDTH - 1];
#pragma unroll
    for (int offset = 0; offset + 1 < WIDTH; offset++) at[offset + 1] = codes[offset] * entry;
#pragma unroll 2
    for (int position = 0; position < length; position++) {
#pragma unroll
        for (int offset = 0; offset + 1 < WIDTH; offset++) at[offset] = at[offset + 1];
        at[WIDTH - 1] = next * entry;
        next = codes[position + WIDTH];
        Pairs sum = *reinterpret_cast<const Pairs*>(table + at[0]);
#pragma unroll
        for (int offset = 1; offset < WIDTH; offset++) {
            Pairs more = *reinterpret_cast<const Pairs*>(table + at[offset] + offset * row);
#pragma unroll
            for (int pair = 0; pair < PAIRS; pair++) sum.of[pair] = sum_of(sum.of[pair], more.of[pair]);
        }
#pragma unroll
        for (int pair = 0; pair < PAIRS; pair++) {
            unsigned better = above(sum.of[pair], best.scores[pair]);
            best.scores[pair] = larger_of(sum.of[pair], best.scores[pair]);
            best.places[pair] = (position * 0x10001 & better) | (best.places[pair] & ~better);
        }
    }
    return best;
}

template <int WIDTH>
__device__ __forceinline__ void all_strings(
    const char* table, const byte* codes, const int* lengths, const byte* rare, const float* shifts,
    unsigned short* features, byte* where, int begin, int end, int stride, int offsets, int kept, int filters
) {
    char* own = reinterpret_cast<char*>(memory);
    constexpr int ROW = BLOCK * 2;  // bytes of one offset of one character
    int first = blockIdx.y * BLOCK, lane = threadIdx.x % LANES;
    for (int at = threadIdx.x; at < kept * WIDTH * LANES; at += blockDim.x) {
        int row = at / LANES, offset = row % WIDTH, character = row / WIDTH;
        const char* from = table + ((character * offsets + offset) * filters + first) * 2;
        reinterpret_cast<Pairs*>(own + row * ROW)[at % LANES] = reinterpret_cast<const Pairs*>(from)[at % LANES];
    }
    __syncthreads();
    int filter = first + lane * EACH;
    float shift[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) shift[i] = shifts[filter + i];
    for (int string = begin + threadIdx.x / LANES; string < end; string += blockDim.x / LANES) {
        const byte* row = codes + static_cast<long long>(string) * stride;
        Best best =
            rare[string]
                ? best_of_string<WIDTH>(table + filter * 2, offsets * filters * 2, filters * 2, row, lengths[string])
                : best_of_string<WIDTH>(own + lane * EACH * 2, WIDTH * ROW, ROW, row, lengths[string]);
        float values[EACH];
        Places places;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int half = i % 2 * 16;
            float value = from_half(best.scores[i / 2] >> half & 0xffff) + shift[i];
            values[i] = value <= 0.f ? 0.f : value;
            places.of[i] = value <= 0.f ? NOWHERE : best.places[i / 2] >> half & 0xff;
        }
        Pairs bfloats;
#pragma unroll
        for (int pair = 0; pair < PAIRS; pair++) bfloats.of[pair] = to_bfloats(values[2 * pair], values[2 * pair + 1]);
        long long to = static_cast<long long>(string) * filters + filter;
        *reinterpret_cast<Pairs*>(features + to) = bfloats;
        *reinterpret_cast<Places*>(where + to) = places;
    }
}

// relu(maximum + shift) of every string and filter, and where the maximum was: NOWHERE where the result is zero.
// Grid: shares of strings, blocks of BLOCK filters. The widest filter of each block is in `widths`.
extern "C" __global__ void letter_maxima(
    const char* table, const byte* codes, const int* lengths, const byte* rare, const float* shifts,
    const int* widths, unsigned short* features, byte* where,
    int strings, int share, int stride, int offsets, int kept, int filters
) {
    int begin = blockIdx.x * share, end = min(begin + share, strings);
#define READ(width) \
    all_strings<width>( \
        table, codes, lengths, rare, shifts, features, where, begin, end, stride, offsets, kept, filters \
    )
    FOR_WIDTH(widths[blockIdx.y], READ)
}
