package export

import "github.com/headrace/headrace/subjects"

// Conversation is a trajectory's text as chat APIs have it: a message for each of
// it, with the tool calls taken out of the text.
func Conversation(in []subjects.Message) []Message { return conversation(in) }
