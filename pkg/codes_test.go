package pkg_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// The list of reason codes is closed: whatever code the sources put into a
// Reason is documented there.
func TestEveryCodeInTheSourcesIsInTheList(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := kv.Key.(*ast.Ident)
			lit, isText := kv.Value.(*ast.BasicLit)
			if !ok || key.Name != "Code" || !isText || lit.Kind != token.STRING {
				return true
			}
			code, err := strconv.Unquote(lit.Value)
			if err != nil || !strings.Contains(code, "-") {
				return true // a health code of a card, not a reason
			}
			found++
			if _, known := reason.Lookup(reason.Code(code)); !known {
				t.Errorf("%s: reason code %q is not in pkg/core/reason", path, code)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 50 {
		t.Errorf("%d codes found in the sources; the search has gone blind", found)
	}
}
