package envs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// DecodeParams sets the fields of a parameter struct, which holds the
// defaults, from a JSON object. Empty, null and {} leave the defaults. A key
// that no field has is an error that lists those there are; a value of the
// wrong type is one that names the key.
func DecodeParams(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return errors.New("parameters: want a JSON object")
	}
	fields := map[string]int{}
	var allowed []string
	value := reflect.ValueOf(into).Elem()
	for i := range value.NumField() {
		name := jsonName(value.Type().Field(i))
		fields[name] = i
		allowed = append(allowed, name)
	}
	for key, data := range given {
		i, ok := fields[key]
		if !ok {
			return fmt.Errorf("unknown parameter %q: allowed are %s", key, strings.Join(allowed, ", "))
		}
		field := value.Field(i)
		if err := decodeField(data, field); err != nil {
			return fmt.Errorf("parameter %s: want %s, not %s", key, typeName(field.Type()), data)
		}
	}
	return nil
}

// decodeField sets a field, and holds a fixed array to its length, which
// encoding/json does not.
func decodeField(data json.RawMessage, field reflect.Value) error {
	if field.Kind() == reflect.Array {
		var elements []json.RawMessage
		if err := json.Unmarshal(data, &elements); err != nil || len(elements) != field.Len() {
			return errors.New("wrong length")
		}
	}
	return json.Unmarshal(data, field.Addr().Interface())
}

// DescribeParams documents a parameter struct that holds the defaults: one
// Param a field, from its json and doc tags.
func DescribeParams(defaults any) []Param {
	value := reflect.ValueOf(defaults)
	params := make([]Param, value.NumField())
	for i := range params {
		field := value.Type().Field(i)
		text, err := json.Marshal(value.Field(i).Interface())
		if err != nil {
			text = []byte("?")
		}
		params[i] = Param{
			Name:    jsonName(field),
			Type:    typeName(field.Type),
			Default: string(text),
			Doc:     field.Tag.Get("doc"),
		}
	}
	return params
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// typeName says for people what JSON value a type takes; a type may say so
// itself with a method TypeName.
func typeName(t reflect.Type) string {
	if named, ok := reflect.Zero(t).Interface().(interface{ TypeName() string }); ok {
		return named.TypeName()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "true or false"
	case reflect.Array:
		return fmt.Sprintf("list of %d numbers", t.Len())
	default:
		return t.Kind().String()
	}
}
