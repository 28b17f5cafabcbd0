package otel

import (
	"encoding/json"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// attributes are built up in the order in which people read them.
type attributes []*commonpb.KeyValue

// maxText bounds a text attribute, in bytes.
const maxText = 64 << 10

func (a *attributes) text(key, v string) {
	if v == "" {
		return
	}
	a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: clean(v)}})
}

// clean bounds a text and makes it UTF-8, without which a request is none.
func clean(v string) string {
	if len(v) > maxText {
		v = v[:maxText] + "…"
	}
	return strings.ToValidUTF8(v, "\uFFFD")
}

func (a *attributes) texts(key string, values ...string) {
	list := &commonpb.ArrayValue{}
	for _, v := range values {
		list.Values = append(list.Values, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: clean(v)}})
	}
	a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}})
}

func (a *attributes) int(key string, v int64) {
	a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}})
}

func (a *attributes) float(key string, v float64) {
	a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}})
}

// json is a structured value as a string, which every backend can show. One that
// is too long loses its end.
func (a *attributes) json(key string, v any) {
	if text, err := json.Marshal(v); err == nil {
		a.text(key, string(text))
	}
}

func (a *attributes) add(key string, v *commonpb.AnyValue) {
	*a = append(*a, &commonpb.KeyValue{Key: key, Value: v})
}
