package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// audit reads a whole log over HTTP: <prefix> <token> <vkey> <file of checkpoints, one JSON string a line>. It verifies
// that the entries make the newest checkpoint, that the tiles of leaves are those of the entries, and that every
// checkpoint of the file is one of the same history. It prints each entry in base64.
func audit(args []string) error {
	prefix, token, vkey := args[0], args[1], args[2]
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return err
	}
	newest, err := get(prefix+"/checkpoint", token)
	if err != nil {
		return err
	}
	size, root, err := open(string(newest), verifier)
	if err != nil {
		return err
	}
	roots, err := checkpoints(args[3], verifier)
	if err != nil {
		return err
	}
	roots[size] = append(roots[size], root)
	t := &tree{}
	for first := int64(0); first < size; first += 256 {
		if err := auditBundle(prefix, token, t, first, size, roots); err != nil {
			return err
		}
	}
	// The root of an empty tree is that of no entry.
	delete(roots, 0)
	for missing := range roots {
		return fmt.Errorf("a checkpoint of %d entries, of which there are %d", missing, size)
	}
	return nil
}

// auditBundle appends the entries of a bundle to the tree, and takes out the roots that it meets.
func auditBundle(prefix, token string, t *tree, first, size int64, roots map[int64][]tlog.Hash) error {
	width := min(256, size-first)
	bundle, err := get(prefix+path("entries", first/256, width), token)
	if err != nil {
		return err
	}
	tile, err := get(prefix+path("0", first/256, width), token)
	if err != nil {
		return err
	}
	for i := int64(0); i < width; i++ {
		if len(bundle) < 2 {
			return fmt.Errorf("bundle of %d is short", first)
		}
		end := 2 + int(binary.BigEndian.Uint16(bundle))
		if len(bundle) < end {
			return fmt.Errorf("bundle of %d is short", first)
		}
		entry := bundle[2:end]
		bundle = bundle[end:]
		hash := tlog.RecordHash(entry)
		if !bytes.Equal(tile[32*i:32*i+32], hash[:]) {
			return fmt.Errorf("entry %d is not in its tile", first+i)
		}
		stored, err := tlog.StoredHashes(t.size, entry, t)
		if err != nil {
			return err
		}
		t.hashes = append(t.hashes, stored...)
		t.size++
		found, err := tlog.TreeHash(t.size, t)
		if err != nil {
			return err
		}
		for _, root := range roots[t.size] {
			if root != found {
				return fmt.Errorf("the checkpoint of %d entries has another root", t.size)
			}
		}
		delete(roots, t.size)
		fmt.Println(base64.StdEncoding.EncodeToString(entry))
	}
	return nil
}

// open verifies a checkpoint.
func open(text string, verifier note.Verifier) (int64, tlog.Hash, error) {
	opened, err := note.Open([]byte(text), note.VerifierList(verifier))
	if err != nil {
		return 0, tlog.Hash{}, err
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[0] != verifier.Name() {
		return 0, tlog.Hash{}, fmt.Errorf("not a checkpoint of %s", verifier.Name())
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return 0, tlog.Hash{}, err
	}
	root, err := tlog.ParseHash(lines[2])
	return size, root, err
}

func checkpoints(file string, verifier note.Verifier) (map[int64][]tlog.Hash, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	roots := map[int64][]tlog.Hash{}
	lines := bufio.NewScanner(opened)
	for lines.Scan() {
		var text string
		if err := json.Unmarshal(lines.Bytes(), &text); err != nil {
			return nil, err
		}
		size, root, err := open(text, verifier)
		if err != nil {
			return nil, err
		}
		roots[size] = append(roots[size], root)
	}
	return roots, lines.Err()
}

// path is that of C2SP tlog-tiles.
func path(level string, index, width int64) string {
	groups := fmt.Sprintf("%03d", index%1000)
	for index /= 1000; index > 0; index /= 1000 {
		groups = fmt.Sprintf("x%03d/%s", index%1000, groups)
	}
	partial := ""
	if width < 256 {
		partial = fmt.Sprintf(".p/%d", width)
	}
	return "/tile/" + level + "/" + groups + partial
}

func get(url, token string) ([]byte, error) {
	request, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}
