package observe_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/worker/observe"
)

// recording is an observer with every callback set; each appends name.
func recording(name string, told *[]string) observe.Observer {
	var o observe.Observer
	v := reflect.ValueOf(&o).Elem()
	for _, field := range v.Fields() {
		field.Set(reflect.MakeFunc(field.Type(), func([]reflect.Value) []reflect.Value {
			*told = append(*told, name)
			return nil
		}))
	}
	return o
}

// argumentsOf returns zero arguments for a function, and a context if it takes one.
func argumentsOf(t reflect.Type) []reflect.Value {
	var in []reflect.Value
	for in0 := range t.Ins() {
		if in0 == reflect.TypeFor[context.Context]() {
			in = append(in, reflect.ValueOf(context.Background()))
			continue
		}
		in = append(in, reflect.Zero(in0))
	}
	return in
}

// TestJoinPassesEveryFactOn: each callback of a joined observer calls the same callback of all parts, in
// order. It skips parts without it.
func TestJoinPassesEveryFactOn(t *testing.T) {
	t.Parallel()
	var told []string
	joined := reflect.ValueOf(observe.Join(recording("a", &told), observe.Observer{}, recording("b", &told)))
	for i := range joined.NumField() {
		told = nil
		joined.Field(i).Call(argumentsOf(joined.Field(i).Type()))
		if !slices.Equal(told, []string{"a", "b"}) {
			t.Errorf("%s told %v", joined.Type().Field(i).Name, told)
		}
	}
}

// TestMethodsTellTheirCallback: every callback has a method of its name without "On", which calls only that
// callback, and does nothing if it is nil.
func TestMethodsTellTheirCallback(t *testing.T) {
	t.Parallel()
	callbacks := reflect.TypeFor[observe.Observer]()
	for i := range callbacks.NumField() {
		name := callbacks.Field(i).Name
		var told []string
		all := recording(name, &told)
		var one observe.Observer
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(all).Field(i))
		method := reflect.ValueOf(&one).MethodByName(name[len("On"):])
		if !method.IsValid() {
			t.Errorf("%s has no method", name)
			continue
		}
		method.Call(argumentsOf(method.Type()))
		reflect.ValueOf(&observe.Observer{}).MethodByName(name[len("On"):]).Call(argumentsOf(method.Type()))
		if len(told) != 1 {
			t.Errorf("%s was called %d times", name, len(told))
		}
	}
}
