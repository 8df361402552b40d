package inspect

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A reading is a place in this package that names a row of the core's table (core/src/inspection/descriptor.def).
type reading struct {
	name  string
	width uint32 // with which it reads the member; 0 where the place does not tell
	place token.Position
}

// literal is the text of a string literal or the digits of a number.
func literal(e ast.Expr, kind token.Token) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != kind {
		return "", false
	}
	if kind == token.STRING {
		text, err := strconv.Unquote(l.Value)
		return text, err == nil
	}
	return l.Value, true
}

// rowNamed finds the row that a call such as constant("tracker.base") or r.constant("head.bytes") names.
func rowNamed(call *ast.CallExpr) (string, bool) {
	function, receiver := "", ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		function = f.Name
	case *ast.SelectorExpr:
		function = f.Sel.Name
		if x, ok := f.X.(*ast.Ident); ok {
			receiver = x.Name
		}
	}
	at := map[string]int{"constant": 0, "c": 0, "n": 0, "figure": 0, "first": 0, "each": 0, "place": 0, "of": 1}
	i, ok := at[function]
	if !ok || i >= len(call.Args) {
		return "", false
	}
	name, ok := literal(call.Args[i], token.STRING)
	if ok && receiver == "r" {
		name = "profile." + name
	}
	return name, ok
}

func namedReadings(t *testing.T) (found []reading) {
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, readingsOf(files, file)...)
	}
	return found
}

func readingsOf(files *token.FileSet, file *ast.File) (found []reading) {
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		if name, ok := rowNamed(call); ok {
			found = append(found, reading{name, width(call), files.Position(call.Pos())})
		}
		// number(bytes, w.l.constant("region.at"), 8)
		if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "number" {
			ast.Inspect(call.Args[1], func(inner ast.Node) bool {
				if c, ok := inner.(*ast.CallExpr); ok {
					if name, ok := rowNamed(c); ok {
						found = append(found, reading{name, width(call), files.Position(c.Pos())})
					}
				}
				return true
			})
		}
		return true
	})
	return found
}

// width is the last argument of a call, if it is a number.
func width(call *ast.CallExpr) uint32 {
	digits, _ := literal(call.Args[len(call.Args)-1], token.INT)
	w, _ := strconv.Atoi(digits)
	return uint32(w)
}

// The library's table and this package name the same rows, and give members the same widths.
func TestTheReaderAgreesWithTheTableOfTheCore(t *testing.T) {
	l, err := decodeLayout(description(t))
	if err != nil {
		t.Fatal(err)
	}
	widths := 0
	for _, r := range namedReadings(t) {
		_, constant := l.constants[r.name]
		_, cell := l.cellNames[r.name]
		if !constant && !cell {
			t.Errorf("%s: the library tells of no %s: add it to core/src/inspection/descriptor.def, or read another row", r.place, r.name)
		}
		if w := l.widths[r.name]; w != 0 && r.width != 0 {
			widths++
			if w != r.width {
				t.Errorf("%s: %s is read as %d bytes, in the library it has %d", r.place, r.name, r.width, w)
			}
		}
	}
	if widths < 30 {
		t.Errorf("only %d places were found that read a member by its width: correct this test", widths)
	}
}
