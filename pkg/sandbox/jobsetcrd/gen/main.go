// Command gen writes the JobSet definition of the module that go.mod names,
// without its descriptions, which are nine tenths of it.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const header = `# Copied from sigs.k8s.io/jobset %s, config/components/crd/bases,
# without descriptions, by ` + "`go generate`" + `. Do not edit.
#
# Copyright The Kubernetes Authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
`

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	b, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "sigs.k8s.io/jobset").Output()
	if err != nil {
		return fmt.Errorf("find the module sigs.k8s.io/jobset: %w", err)
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	src, err := os.ReadFile(filepath.Join(dir, "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"))
	if err != nil {
		return err
	}
	var doc any
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return err
	}
	strip(doc, "")
	body, err := yaml.Marshal(doc)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	fmt.Fprintf(&buf, header, version)
	buf.Write(body)
	return os.WriteFile(out, buf.Bytes(), 0o644)
}

// strip removes description texts, but no property that happens to be called
// description, and no printer column's, which people see.
func strip(v any, key string) {
	switch t := v.(type) {
	case map[string]any:
		if _, text := t["description"].(string); text && key != "properties" && key != "additionalPrinterColumns" {
			delete(t, "description")
		}
		for k, child := range t {
			strip(child, k)
		}
	case []any:
		for _, child := range t {
			strip(child, key)
		}
	}
}
