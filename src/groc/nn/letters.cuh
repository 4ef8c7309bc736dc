// The largest score of each filter of a character CNN over the windows of a string, and its gradient.
//
// Characters are few. What a filter gives a character at an offset of its window is therefore a table,
// [character, offset, filter], made anew at each step, and the score of a window is a sum of a few of its entries: no
// product is left. The gradient of a maximum reaches one window alone, so that of the table is a histogram: for each
// string and filter the gradient is added at the characters of that window. No two threads write to the same place, so
// it is repeatable.
//
// Characters come as bytes, numbered by how often they occur, 0 being none at all. Those below `kept` have their part
// of the table in shared memory; strings with others (`rare`), which are few, go to where it lies. Behind each string
// there are as many zeros as a window and a few words need.

typedef unsigned char byte;

constexpr int LANES = 32, NOWHERE = 255;
constexpr int BLOCK = 128;  // filters of which one width is known, the widest

extern __shared__ uint4 memory[];

#define FOR_WIDTH(width, function)                                      \
    switch (width) {                                                    \
        case 1: return function(1);                                     \
        case 2: return function(2);                                     \
        case 3: return function(3);                                     \
        case 4: return function(4);                                     \
        case 5: return function(5);                                     \
        case 6: return function(6);                                     \
        case 7: return function(7);                                     \
        case 8: return function(8);                                     \
    }
