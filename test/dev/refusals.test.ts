import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");

/** The codes that refusals of several reasons share. */
const codes = "Unauthenticated|PermissionDenied|InvalidArgument|Unavailable";
const codeAlone = new RegExp(
  [
    `\\{ code: (?:"(?:${codes})"|Code\\.(?:${codes})) \\}`,
    `toBe\\("(?:${codes})"\\)`,
    `code: "(?:${codes})",\\n\\s*\\}\\)`,
  ].join("|"),
  "g",
);

/** What says why, near the assertion: a line of the audit trail or of a log, a sentence, or that nobody was asked. */
const why =
  /reason|[aA]udits|operations|log\.until|detail|message|unreachable|refusal|toThrow|outcomes/;
const linesAround = 8;

/** Where a code says enough: only one refusal has it there. */
const enough: Readonly<Record<string, string>> = {
  "test/agent/sockets/workload-api.test.ts": "the agent's own socket has one refusal of this code",
  "test/contract/certificate-service/wire-messages.ts": "the message itself, before any audit",
};

/** The lines of a test that expect a code and do not say why, as `<file>:<line>`. */
function withoutReason(file: string): readonly string[] {
  const text = readFileSync(join(root, file), "utf8");
  const lines = text.split("\n");
  return [...text.matchAll(codeAlone)].flatMap(({ index }) => {
    const at = text.slice(0, index).split("\n").length;
    const near = lines.slice(Math.max(0, at - 1 - linesAround), at + linesAround);
    return near.some((line) => why.test(line)) ? [] : [`${file}:${at}`];
  });
}

test("a test that expects a refusal says why, where several have its code", () => {
  const files = globSync("test/**/*.ts", { cwd: root }).filter(
    (file) => !/^test\/(?:interop|dev|testkit\/programs\/out)\//.test(file),
  );
  expect(files.filter((file) => !(file in enough)).flatMap(withoutReason)).toEqual([]);
});

test("each exception is still one", () => {
  const stale = Object.keys(enough).filter((file) => withoutReason(file).length === 0);
  expect(stale).toEqual([]);
});
