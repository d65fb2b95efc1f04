package faults

import (
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	got := Sum([]Record{
		{Test: "a", Faults: 2, Survived: 1, Seeds: 3, Failed: true},
		{Test: "b", Faults: 1, Survived: 1, WrongBytes: 4, Canaries: 6, CanariesCaught: 5, Kills: 7},
	})
	want := Record{Faults: 3, Survived: 2, WrongBytes: 4, Canaries: 6, CanariesCaught: 5, Seeds: 3, Kills: 7, Failed: true}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestReadLogBroken(t *testing.T) {
	if _, err := ReadLog(strings.NewReader(`{"test":"a"}` + "\n{")); err == nil {
		t.Error("half a record was read")
	}
}
