package check

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/memgauge/memgauge/internal/faces/evidence"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/check"
)

type findingJSON struct {
	Rule      string             `json:"rule"`
	Name      string             `json:"name"`
	Severity  check.Severity     `json:"severity"`
	Path      string             `json:"path"`
	Cell      *int               `json:"cell"`
	Line      int                `json:"line"`
	Column    int                `json:"column"`
	EndLine   int                `json:"end_line"`
	EndColumn int                `json:"end_column"`
	Message   string             `json:"message"`
	Hint      string             `json:"hint"`
	Holder    *string            `json:"holder"`
	Fixable   bool               `json:"fixable"`
	Measured  *evidence.Measured `json:"measured"`
}

func writeJSON(out *bytes.Buffer, r *result) error {
	d := struct {
		SchemaVersion int           `json:"schema_version"`
		Files         int           `json:"files"`
		Mended        int           `json:"mended"`
		Findings      []findingJSON `json:"findings"`
	}{doc.JSONVersion, r.files, r.mended, []findingJSON{}}
	for _, f := range r.findings {
		j := findingJSON{Rule: f.Rule.ID, Name: f.Rule.Name, Severity: f.Rule.Severity, Path: f.Path, Line: f.Line,
			Column: f.Col, EndLine: f.EndLine, EndColumn: f.EndCol, Message: f.Message, Hint: f.Hint,
			Holder: doc.Known(f.Holder), Fixable: f.Fixable(), Measured: f.Measured}
		if f.Cell > 0 {
			j.Cell = &f.Cell
		}
		d.Findings = append(d.Findings, j)
	}
	return doc.WriteJSON(out, d)
}

// note returns a finding's whole text, for formats with a single field for it.
func (m measured) note() string {
	text := m.Message + ". " + m.Hint
	if m.Measured != nil {
		text += ". Measured: " + m.Measured.String()
	}
	if m.Cell > 0 {
		text = fmt.Sprintf("cell %d, line %d: %s", m.Cell, m.Line, text)
	}
	return text
}

// fileLine is the line that formats for other tools give. A finding in a notebook has none in the file.
func (m measured) fileLine() int {
	if m.Cell > 0 {
		return 1
	}
	return m.Line
}

// SARIF 2.1.0, as code scanning reads it.
type (
	sarifText struct {
		Text string `json:"text"`
	}
	sarifRule struct {
		ID      string    `json:"id"`
		Name    string    `json:"name"`
		Short   sarifText `json:"shortDescription"`
		Help    sarifHelp `json:"help"`
		Default struct {
			Level string `json:"level"`
		} `json:"defaultConfiguration"`
	}
	sarifHelp struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
		EndLine     int `json:"endLine"`
		EndColumn   int `json:"endColumn"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region sarifRegion `json:"region"`
		} `json:"physicalLocation"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifRun struct {
		Tool struct {
			Driver struct {
				Name    string      `json:"name"`
				Version string      `json:"version"`
				Rules   []sarifRule `json:"rules"`
			} `json:"driver"`
		} `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
)

func writeSARIF(out *bytes.Buffer, r *result) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver.Name, run.Tool.Driver.Version = "memgauge", r.version
	index := map[string]int{}
	for i, rule := range check.Rules() {
		index[rule.ID] = i
		s := sarifRule{ID: rule.ID, Name: rule.Name, Short: sarifText{rule.Name}, Help: sarifHelp{rule.Page(),
			rule.Page()}}
		s.Default.Level = string(rule.Severity)
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, s)
	}
	for _, f := range r.findings {
		region := sarifRegion{f.Line, f.Col, f.EndLine, f.EndCol}
		if f.Cell > 0 {
			region = sarifRegion{1, 1, 1, 1}
		}
		var at sarifLocation
		at.Physical.Artifact.URI, at.Physical.Region = filepath.ToSlash(f.Path), region
		run.Results = append(run.Results, sarifResult{f.Rule.ID, index[f.Rule.ID], string(f.Rule.Severity),
			sarifText{f.note()}, []sarifLocation{at}})
	}
	return doc.WriteJSON(out, map[string]any{"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs":    []sarifRun{run}})
}

// commandText and commandValue escape what GitHub's workflow commands treat as their own.
var (
	commandText  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandValue = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func writeGitHub(out *bytes.Buffer, r *result) error {
	for _, f := range r.findings {
		level := string(f.Rule.Severity)
		if f.Rule.Severity == check.Note {
			level = "notice"
		}
		fmt.Fprintf(out, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", level, commandValue.Replace(f.Path),
			f.fileLine(), f.Col,
			commandValue.Replace("memgauge "+f.Rule.ID+" "+f.Rule.Name), commandText.Replace(f.note()))
	}
	return nil
}

type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

func writeJUnit(out *bytes.Buffer, r *result) error {
	suite := junitSuite{Name: "memgauge check", Tests: max(len(r.findings), 1), Failures: len(r.findings)}
	for _, f := range r.findings {
		suite.Cases = append(suite.Cases, junitCase{Name: f.Rule.ID + " " + f.place(), Class: f.Path,
			Failure: &junitFailure{f.Message, f.Rule.ID, f.place() + ": " + f.note()}})
	}
	if len(suite.Cases) == 0 {
		suite.Cases = []junitCase{{Name: doc.Plural(r.files, "file"), Class: "memgauge check"}}
	}
	out.WriteString(xml.Header)
	e := xml.NewEncoder(out)
	e.Indent("", "  ")
	if err := e.Encode(suite); err != nil {
		return fmt.Errorf("write JUnit: %w", err)
	}
	out.WriteString("\n")
	return nil
}
