package table

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// fields calls visit with every field of a row, those of the structs in it too, and its offset.
func fields(row reflect.Type, from uintptr, visit func(f reflect.StructField, offset uintptr)) {
	for i := range row.NumField() {
		f := row.Field(i)
		if f.Type.Kind() == reflect.Struct {
			fields(f.Type, from+f.Offset, visit)
		} else {
			visit(f, from+f.Offset)
		}
	}
}

// TestEveryFieldHasItsColumn: what a row carries is stored, once, as what it is.
func TestEveryFieldHasItsColumn(t *testing.T) {
	for _, table := range All {
		if table.Row == nil {
			continue
		}
		columns := map[uintptr][]Column{}
		for _, c := range table.Columns {
			if c.From != nil {
				columns[c.Offset(table)] = append(columns[c.Offset(table)], c)
			}
		}
		row := reflect.TypeOf(table.Row).Elem()
		fields(row, 0, func(f reflect.StructField, offset uintptr) {
			if f.Tag.Get("table") == "-" {
				return
			}
			found := columns[offset]
			if len(found) != 1 || reflect.TypeOf(found[0].From).Elem() != f.Type {
				t.Errorf("%s.%s: stored in %d columns of %s", row, f.Name, len(found), table.Store)
			}
			delete(columns, offset)
		})
		if len(columns) > 0 {
			t.Errorf("%s: columns of another row than %s", table.Store, row)
		}
	}
}

// TestEveryListHasItsTable: whatever a batch carries is appended.
func TestEveryListHasItsTable(t *testing.T) {
	var b model.Batch
	lists := map[uintptr]string{}
	for _, s := range []reflect.Value{reflect.ValueOf(&b).Elem(), reflect.ValueOf(&b.Samples).Elem()} {
		for i := range s.NumField() {
			if s.Field(i).Kind() == reflect.Slice {
				lists[s.Field(i).Addr().Pointer()] = s.Type().Field(i).Name
			}
		}
	}
	for _, table := range All {
		if table.Rows == nil {
			continue
		}
		list := reflect.ValueOf(table.Rows(&b))
		if list.Type().Elem().Elem() != reflect.TypeOf(table.Row).Elem() {
			t.Errorf("%s: its rows are %s", table.Store, list.Type())
		}
		delete(lists, list.Pointer())
	}
	if left := slices.Sorted(maps.Values(lists)); !slices.Equal(left, []string{"Cursors", "Names"}) {
		t.Errorf("%v of a batch are in no table", left)
	}
}

func TestDescriptionsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for i, table := range All {
		if i > 0 && table.Order == All[i-1].Order {
			t.Errorf("%s and %s have the same place", table.Store, All[i-1].Store)
		}
		if table.Doc == "" || seen[table.Store] || seen[table.View] && table.View != "" {
			t.Errorf("%s: no description, or there twice", table.Store)
		}
		seen[table.Store], seen[table.View] = true, true
		shown, stored := map[string]bool{}, map[string]bool{}
		for _, c := range table.Columns {
			if c.Name != "" && (shown[c.Name] || c.Doc == "" || c.Type == "") ||
				c.Stored != "" && (stored[c.Stored] || c.StoredDoc == "" || c.StoredType == "") {
				t.Errorf("%s.%s: there twice, or without type or description", table.Store, c.Name+c.Stored)
			}
			shown[c.Name], stored[c.Stored] = c.Name != "", c.Stored != ""
			group := slices.Contains(strings.Split(table.Merge, ", "), c.Stored)
			if c.Stored != "" && (c.Merge != "") != (table.Merge != "" && !group) {
				t.Errorf("%s.%s: must say how rows are merged, unless they aren't or it is what they have in common",
					table.Store, c.Stored)
			}
		}
		for name := range strings.SplitSeq(table.Key+", "+table.Merge, ", ") {
			if name != "" && !stored[name] {
				t.Errorf("%s: there is no column %s", table.Store, name)
			}
		}
	}
}
