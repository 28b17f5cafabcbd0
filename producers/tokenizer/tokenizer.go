// Package tokenizer turns conversations into token ids and back.
//
// The one idea: text and structure never mix. A [Tokenizer] encodes content,
// and no content, however it is spelled, yields a special token; a [Template]
// lays out the turns and is the only one to insert special ids. So an
// observation that contains "<|im_end|>" cannot end its own turn.
//
// The history that a template makes only grows: Prompt renders the start of an
// episode, Extend what follows a completion, and the concatenation is what one
// render of the whole conversation gives. The token ledger of the producers
// rests on that.
package tokenizer

import "github.com/headrace/headrace/envs"

// Tokenizer maps content to token ids and back.
//
// Concurrent: yes, for any number of goroutines. Nothing is to be closed and
// nothing fails: every string has an encoding.
type Tokenizer interface {
	// Encode returns the ids of content; never one of the special ids. The
	// result is the caller's.
	Encode(text string) []int32
	// AppendEncode appends the ids of content to dst.
	AppendEncode(dst []int32, text string) []int32
	// Decode returns the text of ids: special tokens by their spelling, ids
	// out of range as nothing. Decode(Encode(s)) == s for any bytes s.
	Decode(ids []int32) string
	// VocabSize is the number of ids: 0 .. VocabSize()-1.
	VocabSize() int
	// PadID fills rows and is never sampled or encoded; EOSID ends a turn.
	PadID() int32
	EOSID() int32
	// Special returns the id of a special token by its spelling.
	Special(token string) (id int32, ok bool)
	// ID is a stable hash of the vocabulary: two tokenizers with the same ID
	// give the same ids for the same text.
	ID() string
}

// Template lays out the turns of a conversation.
//
// Concurrent: yes. Results are the caller's.
type Template interface {
	// Prompt renders a conversation from its start; with generationPrompt
	// the last turn is opened for the assistant to complete.
	Prompt(messages []envs.Message, generationPrompt bool) []int32
	// Extend renders what follows a completion that ended with the EOS id:
	// the rest of the assistant's turn, the messages, and the opening of the
	// assistant's next turn.
	Extend(messages []envs.Message) []int32
	// StopIDs end a completion.
	StopIDs() []int32
}
