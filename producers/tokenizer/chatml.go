package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/headrace/headrace/envs"
)

// ChatML is the template of Qwen and others: every turn is
//
//	<|im_start|>role\ncontent<|im_end|>\n
//
// where the two marks are special ids. Role head and content are encoded apart
// from each other, so the ids of a turn do not depend on its neighbours.
type ChatML struct {
	tok        Tokenizer
	start, end int32
	newline    []int32
	heads      map[string][]int32
	tools      string
}

var _ Template = (*ChatML)(nil)

// NewChatML makes the template on a tokenizer that has <|im_start|> and
// <|im_end|>; an error if it has not. Tools, if any, are described at the end
// of the system turn, which is added where a conversation has none.
func NewChatML(tok Tokenizer, tools ...envs.Tool) (*ChatML, error) {
	c := &ChatML{tok: tok, newline: tok.Encode("\n"), heads: map[string][]int32{}}
	var ok bool
	if c.start, ok = tok.Special(IMStart); !ok {
		return nil, fmt.Errorf("chat template: tokenizer %s has no %s", tok.ID(), IMStart)
	}
	if c.end, ok = tok.Special(IMEnd); !ok {
		return nil, fmt.Errorf("chat template: tokenizer %s has no %s", tok.ID(), IMEnd)
	}
	for _, role := range []string{envs.RoleSystem, envs.RoleUser, envs.RoleAssistant, envs.RoleTool} {
		c.heads[role] = tok.Encode(role + "\n")
	}
	var err error
	c.tools, err = describeTools(tools)
	return c, err
}

// describeTools is the text about tools in the system turn; empty if none.
func describeTools(tools []envs.Tool) (string, error) {
	if len(tools) == 0 {
		return "", nil
	}
	var text strings.Builder
	text.WriteString("# Tools\n\nThese functions may be called:\n<tools>\n")
	for _, tool := range tools {
		line, err := json.Marshal(map[string]any{"type": "function", "function": tool})
		if err != nil {
			return "", fmt.Errorf("chat template: describe tool %s: %w", tool.Name, err)
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	text.WriteString("</tools>\n\nTo call one, write\n<tool_call>\n{\"name\": NAME, \"arguments\": OBJECT}\n</tool_call>")
	return text.String(), nil
}

// Prompt renders a conversation from its start.
func (c *ChatML) Prompt(messages []envs.Message, generationPrompt bool) []int32 {
	ids := make([]int32, 0, 128)
	if c.tools != "" && (len(messages) == 0 || messages[0].Role != envs.RoleSystem) {
		ids = c.turn(ids, envs.Message{Role: envs.RoleSystem, Content: c.tools})
	}
	for i, m := range messages {
		if i == 0 && c.tools != "" && m.Role == envs.RoleSystem {
			m.Content += "\n\n" + c.tools
		}
		ids = c.turn(ids, m)
	}
	if generationPrompt {
		ids = c.head(ids, envs.RoleAssistant)
	}
	return ids
}

// Extend renders what follows a completion that ended with <|im_end|>.
func (c *ChatML) Extend(messages []envs.Message) []int32 {
	ids := append(make([]int32, 0, 64), c.newline...)
	for _, m := range messages {
		ids = c.turn(ids, m)
	}
	return c.head(ids, envs.RoleAssistant)
}

// StopIDs is the id of <|im_end|>.
func (c *ChatML) StopIDs() []int32 { return []int32{c.end} }

func (c *ChatML) turn(ids []int32, m envs.Message) []int32 {
	ids = c.head(ids, m.Role)
	ids = c.tok.AppendEncode(ids, m.Content)
	return append(append(ids, c.end), c.newline...)
}

func (c *ChatML) head(ids []int32, role string) []int32 {
	ids = append(ids, c.start)
	if head, ok := c.heads[role]; ok {
		return append(ids, head...)
	}
	return c.tok.AppendEncode(ids, role+"\n")
}
