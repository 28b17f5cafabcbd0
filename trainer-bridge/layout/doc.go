// Package layout writes the rows of a batch as arrays into one slot of memory.
//
// One idea explains its shape: a row is placed, never decoded. A segment lies
// in its trajectory's body as little-endian arrays already, so every cell of
// the slot is written exactly once, by a copy from the body or from a constant,
// and nothing is allocated for a row. All integers and floats in the slot are
// little-endian; arrays start on multiples of [Alignment] bytes, row-major;
// the bytes between them are zero, so equal batches give equal slots.
//
// [Padded] holds one segment a row: [R, T] for the smallest bucket T that holds
// the longest. [Packed] holds several a row, put there first-fit decreasing by
// their real length, with segment ids and positions. [PromptCompletion] cuts
// each segment before its first sampled token into a left-padded prompt
// [R, P] and a right-padded completion [R, C].
package layout

// Alignment is the alignment of every array in bytes: what JAX takes without a
// copy on a CPU.
const Alignment = 64
