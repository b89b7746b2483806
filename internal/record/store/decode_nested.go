package store

import (
	"fmt"
	"math/big"
	"strings"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// newOddReader reads scalars whose representation depends on parameters of their type.
func newOddReader(t duck.LogicalType) reader {
	switch duck.GetTypeId(t) {
	case duck.TypeDecimal:
		return newDecimalReader(t)
	case duck.TypeEnum:
		return newEnumReader(t)
	case duck.TypeUHugeInt:
		return newFlat(func(p *[2]uint64) any {
			n := new(big.Int).SetUint64(p[1])
			return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(p[0]))
		})
	case duck.TypeUUID: // a hugeint with its sign bit turned over, so that it sorts
		return newFlat(func(p *huge) any {
			hi, lo := uint64(p.upper)^(1<<63), p.lower
			return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&(1<<48-1))
		})
	case duck.TypeBit:
		return newFlat(func(p *text) any { return bits(p.bytes()) })
	case duck.TypeBigNum:
		return newFlat(func(p *text) any { return bigNum(p.bytes()) })
	}
	return nil
}

// bits: a byte that says how many bits of the next byte are padding, then the bits.
func bits(b []byte) string {
	if len(b) < 2 {
		return ""
	}
	var s strings.Builder
	for _, x := range b[1:] {
		fmt.Fprintf(&s, "%08b", x)
	}
	return s.String()[min(int(b[0]), 8):]
}

// bigNum: three bytes of length (top bit: not negative), then the magnitude, big-endian; all inverted when negative.
func bigNum(b []byte) any {
	if len(b) < 4 {
		return unreadable("BIGNUM")
	}
	positive := b[0]&0x80 != 0
	magnitude := append([]byte{}, b[3:]...)
	if !positive {
		for i := range magnitude {
			magnitude[i] = ^magnitude[i]
		}
	}
	n := new(big.Int).SetBytes(magnitude)
	if !positive {
		n.Neg(n)
	}
	return n
}

func newDecimalReader(t duck.LogicalType) reader {
	scale := duck.DecimalScale(t)
	switch duck.DecimalInternalType(t) {
	case duck.TypeSmallInt:
		return newFlat(func(p *int16) any { return decimal(big.NewInt(int64(*p)), scale) })
	case duck.TypeInteger:
		return newFlat(func(p *int32) any { return decimal(big.NewInt(int64(*p)), scale) })
	case duck.TypeBigInt:
		return newFlat(func(p *int64) any { return decimal(big.NewInt(*p), scale) })
	}
	return newFlat(func(p *huge) any { return decimal(p.big(), scale) })
}

func decimal(n *big.Int, scale uint8) any { return model.Decimal{Unscaled: n, Scale: scale} }

func newEnumReader(t duck.LogicalType) reader {
	names := make([]string, duck.EnumDictionarySize(t))
	for i := range names {
		names[i] = duck.EnumDictionaryValue(t, duck.IdxT(i))
	}
	switch duck.EnumInternalType(t) {
	case duck.TypeUTinyInt:
		return newFlat(func(p *uint8) any { return names[*p] })
	case duck.TypeUSmallInt:
		return newFlat(func(p *uint16) any { return names[*p] })
	}
	return newFlat(func(p *uint32) any { return names[*p] })
}

func newNestedReader(t duck.LogicalType) reader {
	switch duck.GetTypeId(t) {
	case duck.TypeList:
		return &listReader{child: childReader(duck.ListTypeChildType(t))}
	case duck.TypeArray:
		return &arrayReader{child: childReader(duck.ArrayTypeChildType(t)), n: int(duck.ArrayTypeArraySize(t))}
	case duck.TypeMap:
		return &mapReader{key: childReader(duck.MapTypeKeyType(t)), val: childReader(duck.MapTypeValueType(t))}
	case duck.TypeStruct:
		r := &structReader{}
		for i := range duck.StructTypeChildCount(t) {
			r.names = append(r.names, duck.StructTypeChildName(t, i))
			r.children = append(r.children, childReader(duck.StructTypeChildType(t, i)))
		}
		return r
	case duck.TypeUnion:
		r := &unionReader{tag: newFlat(func(p *uint8) any { return int64(*p) })}
		for i := range duck.UnionTypeMemberCount(t) {
			r.members = append(r.members, childReader(duck.UnionTypeMemberType(t, i)))
		}
		return r
	}
	return nil
}

func childReader(t duck.LogicalType) reader {
	defer duck.DestroyLogicalType(&t)
	return newReader(t)
}

// span is duckdb_list_entry: which elements of the child belong to a row.
type span struct{ offset, length uint64 }

type listReader struct {
	base
	child reader
}

func (r *listReader) load(v duck.Vector) {
	r.base.load(v)
	r.child.load(duck.ListVectorGetChild(v))
}

func (r *listReader) value(i int) any {
	s := at[span](r.data, i)
	list := make([]any, s.length)
	for k := range list {
		list[k] = get(r.child, int(s.offset)+k)
	}
	return list
}

type arrayReader struct {
	base
	child reader
	n     int
}

func (r *arrayReader) load(v duck.Vector) {
	r.base.load(v)
	r.child.load(duck.ArrayVectorGetChild(v))
}

func (r *arrayReader) value(i int) any {
	list := make([]any, r.n)
	for k := range list {
		list[k] = get(r.child, i*r.n+k)
	}
	return list
}

// mapReader: a map is a list of structs of key and value.
type mapReader struct {
	base
	key, val reader
}

func (r *mapReader) load(v duck.Vector) {
	r.base.load(v)
	entries := duck.ListVectorGetChild(v)
	r.key.load(duck.StructVectorGetChild(entries, 0))
	r.val.load(duck.StructVectorGetChild(entries, 1))
}

func (r *mapReader) value(i int) any {
	s := at[span](r.data, i)
	m := make(model.Map, s.length)
	for k := range m {
		at := int(s.offset) + k
		m[k] = model.Entry{Key: get(r.key, at), Value: get(r.val, at)}
	}
	return m
}

type structReader struct {
	base
	names    []string
	children []reader
}

func (r *structReader) load(v duck.Vector) {
	r.base.load(v)
	for i, c := range r.children {
		c.load(duck.StructVectorGetChild(v, duck.IdxT(i)))
	}
}

func (r *structReader) value(i int) any {
	s := make(model.Struct, len(r.children))
	for k, c := range r.children {
		s[k] = model.Member{Name: r.names[k], Value: get(c, i)}
	}
	return s
}

// unionReader: a union is a struct of the tag and the members.
type unionReader struct {
	base
	tag     reader
	members []reader
}

func (r *unionReader) load(v duck.Vector) {
	r.base.load(v)
	r.tag.load(duck.StructVectorGetChild(v, 0))
	for i, m := range r.members {
		m.load(duck.StructVectorGetChild(v, duck.IdxT(i+1)))
	}
}

func (r *unionReader) value(i int) any {
	if r.tag.null(i) {
		return nil
	}
	return get(r.members[r.tag.value(i).(int64)], i)
}

// typeName writes a type as DuckDB does.
func typeName(t duck.LogicalType) string {
	child := func(t duck.LogicalType) string {
		defer duck.DestroyLogicalType(&t)
		return typeName(t)
	}
	switch id := duck.GetTypeId(t); id {
	case duck.TypeDecimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", duck.DecimalWidth(t), duck.DecimalScale(t))
	case duck.TypeList:
		return child(duck.ListTypeChildType(t)) + "[]"
	case duck.TypeArray:
		return fmt.Sprintf("%s[%d]", child(duck.ArrayTypeChildType(t)), duck.ArrayTypeArraySize(t))
	case duck.TypeMap:
		return "MAP(" + child(duck.MapTypeKeyType(t)) + ", " + child(duck.MapTypeValueType(t)) + ")"
	case duck.TypeStruct:
		var parts []string
		for i := range duck.StructTypeChildCount(t) {
			parts = append(parts, duck.StructTypeChildName(t, i)+" "+child(duck.StructTypeChildType(t, i)))
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	case duck.TypeVarchar:
		if a := duck.LogicalTypeGetAlias(t); a != "" {
			return a // JSON is a VARCHAR with a name
		}
		return "VARCHAR"
	default:
		if n, ok := typeNames[id]; ok {
			return n
		}
		return fmt.Sprintf("TYPE %d", id)
	}
}

var typeNames = map[duck.Type]string{
	duck.TypeBoolean: "BOOLEAN", duck.TypeTinyInt: "TINYINT", duck.TypeSmallInt: "SMALLINT",
	duck.TypeInteger: "INTEGER",
	duck.TypeBigInt:  "BIGINT", duck.TypeUTinyInt: "UTINYINT", duck.TypeUSmallInt: "USMALLINT",
	duck.TypeUInteger: "UINTEGER",
	duck.TypeUBigInt:  "UBIGINT", duck.TypeFloat: "FLOAT", duck.TypeDouble: "DOUBLE", duck.TypeTimestamp: "TIMESTAMP",
	duck.TypeDate: "DATE", duck.TypeTime: "TIME", duck.TypeInterval: "INTERVAL", duck.TypeHugeInt: "HUGEINT",
	duck.TypeUHugeInt: "UHUGEINT", duck.TypeBlob: "BLOB", duck.TypeTimestampS: "TIMESTAMP_S",
	duck.TypeTimestampMS: "TIMESTAMP_MS", duck.TypeTimestampNS: "TIMESTAMP_NS", duck.TypeEnum: "ENUM",
	duck.TypeUUID: "UUID", duck.TypeUnion: "UNION", duck.TypeBit: "BIT", duck.TypeTimeTZ: "TIME WITH TIME ZONE",
	duck.TypeTimestampTZ: "TIMESTAMP WITH TIME ZONE", duck.TypeBigNum: "BIGNUM", duck.TypeSQLNull: "\"NULL\"",
	duck.TypeTimeNS: "TIME_NS", duck.TypeGeometry: "GEOMETRY", duck.TypeVariant: "VARIANT",
}
