// Package sglang is a client of the HTTP API of SGLang, which SGLang-JAX and
// Headrace's reference engine speak too: POST /generate with token ids in and
// out, and the calls that replace an engine's weights.
//
// The one idea: nothing is believed. Ids are checked before they are sent (an
// id out of the vocabulary kills a real SGLang server), and an answer is taken
// only if it has as many logprobs as ids, the same ids in both lists, finite
// values, and a policy version for every token; [Client.Probe] finds out at the
// start whether an engine can give such answers at all.
//
// On the hot path requests are appended to a pooled buffer and answers are read
// by a scanner that knows the few fields that count, so a call costs its HTTP
// and little more.
package sglang
