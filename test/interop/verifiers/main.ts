import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Ended, run } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { type Outcome, report } from "../outcomes.ts";
import { fromCargo, fromGoModule, ofTheMachine, type Software } from "../software.ts";
import { type Case, createCases } from "./leaves.ts";

/** The files of a case. */
interface Files {
  readonly root: string;
  readonly leaf: string;
}

/** A verifier of another project, and its arguments for each end of a connection. */
interface Verifier {
  readonly name: string;
  readonly software: Promise<Software>;
  readonly questions: (files: Files, spiffeId: string) => readonly (readonly string[])[];
  /** How it is asked where its exit code is no answer. */
  readonly ask?: (program: string, words: readonly string[]) => Promise<Ended>;
}

const clientAuth = "1.3.6.1.5.5.7.3.2";
const serverAuth = "1.3.6.1.5.5.7.3.1";

const verifiers: readonly Verifier[] = [
  {
    name: "OpenSSL, strict",
    software: ofTheMachine("openssl", ["version"], /^OpenSSL 3/),
    questions: ({ root, leaf }) =>
      ["sslclient", "sslserver"].map((purpose) => [
        ...["verify", "-x509_strict", "-check_ss_sig", "-purpose", purpose],
        ...["-CAfile", root, "-untrusted", leaf, leaf],
      ]),
  },
  {
    name: "GnuTLS",
    software: ofTheMachine("certtool", ["--version"], /^certtool 3/),
    questions: ({ root, leaf }) =>
      [clientAuth, serverAuth].map((purpose) => [
        ...["--verify", "--verify-profile=medium", `--verify-purpose=${purpose}`],
        ...["--load-ca-certificate", root, "--infile", leaf],
      ]),
  },
  {
    name: "Go crypto/x509",
    software: fromGoModule(join(import.meta.dirname, "go"), "verifier"),
    questions: ({ root, leaf }, spiffeId) => [[root, leaf, spiffeId]],
  },
  {
    name: "rustls-webpki, as ztunnel builds it",
    software: fromCargo(join(import.meta.dirname, "../own-root/webpki"), "webpki-judge"),
    questions: ({ root, leaf }) => [[root, leaf]],
    ask: askWebpki,
  },
];

async function askWebpki(program: string, files: readonly string[]): Promise<Ended> {
  const [rootPem = "", chain = ""] = await Promise.all(files.map((each) => readFile(each, "utf8")));
  const [leafPem = "", intermediatesPem = ""] = chain.split(/(?<=-----END CERTIFICATE-----\n)/);
  const line = JSON.stringify({ rootPem, leafPem, intermediatesPem });
  const ended = await run("sh", ["-c", `printf '%s\\n' "$1" | "$2"`, "sh", line, program]);
  const { fault } = JSON.parse(ended.stdout) as { fault: string };
  return { ...ended, stdout: fault, exitCode: fault ? 1 : 0 };
}

async function filesOf(folder: string, { rootPem, leafPem }: Case): Promise<Files> {
  const files = { root: join(folder, "root.pem"), leaf: join(folder, "leaf.pem") };
  await writeFile(files.root, rootPem);
  await writeFile(files.leaf, leafPem);
  return files;
}

/** @returns A sentence for an answer that the case does not expect. */
function faultIn({ name, isGood }: Case, { exitCode, stdout, stderr }: Ended): string | undefined {
  if ((exitCode === 0) === isGood) return undefined;
  if (!isGood) return `accepts a leaf ${name}`;
  return `refuses a leaf of ${name}: ${`${stderr}${stdout}`.trim().split("\n").at(-1)}`;
}

async function ask(
  { name, software, questions, ask: askOne = run }: Verifier,
  cases: readonly Case[],
  folder: string,
) {
  const outcome = { client: name, server: "leaves with the proof of an identity" };
  const found = await software;
  if ("missing" in found) return { ...outcome, passed: 0, faults: [], missing: found.missing };
  const faults: string[] = [];
  let passed = 0;
  for (const each of cases) {
    const files = await filesOf(folder, each);
    for (const words of questions(files, each.spiffeId)) {
      const fault = faultIn(each, await askOne(found.program, words));
      if (fault) faults.push(fault);
      else passed++;
    }
  }
  return { ...outcome, passed, faults };
}

const folder = await lastingFolder();
const cases = await createCases();
const outcomes: Outcome[] = [];
for (const verifier of verifiers) outcomes.push(await ask(verifier, cases, folder));
report(outcomes);
