import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { pythonWithEnvoy } from "../envoy.ts";
import { askInLines, webpkiJudge } from "../judges.ts";
import { type Outcome, reportOutcomes, shown } from "../outcome-table.ts";
import { fromGoModule, ofTheMachine, python, required, type Software } from "../software.ts";
import { certificates } from "./certificates.ts";
import { askEnvoy } from "./envoy.ts";
import { playPolicy } from "./policy.ts";
import { bouncyCastleJudge, wolfSslJudge } from "./software.ts";
import { playZtunnels } from "./ztunnel.ts";

/** The questions, in the order of the page's columns. */
const questions = ["leaf", "ownKeyLeaf", "crl", "both"] as const;

/** The last one is a leaf that these roots have not signed, which every verifier refuses. */
export type Question = (typeof questions)[number] | "stranger";

/** Whether the verifier accepts what it is shown; its words where it does not. */
export type Ask = (question: Question) => Promise<string | undefined>;

interface Verifier {
  readonly name: string;
  readonly software: Promise<Software>;
  readonly ask: (program: string) => Ask;
}

const folder = await lastingFolder();
const made = await certificates();
const both = made.classicalRoot + made.postQuantumRoot;
const path = (name: string): string => join(folder, name);
await Promise.all(
  Object.entries({ ...made, both }).map(([name, pem]) => writeFile(path(name), pem)),
);

/** The files of a question: the roots, and what they are to verify. */
function filesOf(question: Question): readonly [roots: string, shown: string] {
  if (question === "both") return [path("both"), path("classicalLeaf")];
  return [path("postQuantumRoot"), path(question === "stranger" ? "classicalLeaf" : question)];
}

/** Asks a program that ends with 0 where it accepts. */
const byExitCode =
  (program: string, words: (question: Question) => readonly string[]): Ask =>
  async (question) => {
    const { exitCode, stdout, stderr } = await run(program, words(question));
    return exitCode === 0 ? undefined : `${stdout} ${stderr}`;
  };

/** What the judges in C, Go and Java are asked. */
const judged = (question: Question): readonly string[] => [
  question === "crl" ? "crl" : "leaf",
  ...filesOf(question),
];

const pyca = `
import sys
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
kind, roots, shown = sys.argv[1:]
roots = x509.load_pem_x509_certificates(open(roots, "rb").read())
pem = open(shown, "rb").read()
if kind == "crl":
    if not x509.load_pem_x509_crl(pem).is_signature_valid(roots[0].public_key()):
        sys.exit("the signature is not valid")
else:
    PolicyBuilder().store(Store(roots)).build_client_verifier().verify(x509.load_pem_x509_certificate(pem), [])
`;

const withEnvoy = pythonWithEnvoy();

const goJudge = fromGoModule(join(import.meta.dirname, "go"), "post-quantum-judge", {
  settings: { GOTOOLCHAIN: "go1.27.0" },
});

const verifiers: readonly Verifier[] = [
  {
    name: "Node 26.12 (OpenSSL 3.5)",
    software: Promise.resolve({ program: "" }),
    ask: () => async (question) => {
      const [roots, file] = await Promise.all(
        filesOf(question).map((each) => readFile(each, "utf8")),
      );
      const keys = (roots?.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map(
        (root) => new X509Certificate(root).publicKey,
      );
      // Node reads no CRLs but for its own TLS.
      if (question === "crl") return "not read";
      const leaf = new X509Certificate(file ?? "");
      return keys.some((key) => leaf.verify(key)) ? undefined : "no root has signed it";
    },
  },
  {
    name: "OpenSSL 3.0",
    software: ofTheMachine("openssl", ["version"], /^OpenSSL 3\.0/),
    ask: (program) =>
      byExitCode(program, (question) => {
        const [roots, file] = filesOf(question);
        return question === "crl"
          ? ["crl", "-noout", "-CAfile", roots, "-in", file]
          : ["verify", "-CAfile", roots, file];
      }),
  },
  {
    name: "GnuTLS 3.7",
    software: ofTheMachine("certtool", ["--version"], /^certtool 3\.7/),
    ask: (program) =>
      byExitCode(program, (question) => {
        const [roots, file] = filesOf(question);
        const verb = question === "crl" ? "--verify-crl" : "--verify";
        return [verb, "--load-ca-certificate", roots, "--infile", file];
      }),
  },
  {
    name: "Go 1.27",
    software: goJudge,
    ask: (program) => byExitCode(program, judged),
  },
  {
    name: "wolfSSL 5.9.4 with ML-DSA",
    software: wolfSslJudge,
    ask: (program) => byExitCode(program, judged),
  },
  {
    name: "BouncyCastle 1.84",
    software: bouncyCastleJudge,
    ask: (program) =>
      byExitCode("java", (question) => ["-cp", program, "Judge", ...judged(question)]),
  },
  {
    name: "pyca/cryptography 50.0.2",
    software: python("post-quantum", ["cryptography==50.0.2"]),
    ask: (program) =>
      byExitCode(program, (question) => ["-c", pyca, question, ...filesOf(question)]),
  },
  {
    name: "rustls-webpki 0.103.13, as ztunnel builds it",
    software: webpkiJudge(),
    ask: (program) => async (question) => {
      if (question === "crl") return "not asked";
      const [rootPem, leafPem] = await Promise.all(
        filesOf(question).map((each) => readFile(each, "utf8")),
      );
      const [fault] = await askInLines(program, [{ rootPem, leafPem, intermediatesPem: "" }]);
      return fault || undefined;
    },
  },
  {
    name: "Envoy 1.40.0",
    software: withEnvoy,
    ask: (program) => askEnvoy(program, made, folder),
  },
];

const page = await readFile("docs/explanation/post-quantum.md", "utf8");

const claim = { server: "a signer with ML-DSA-65", what: "its row of the page" };

const play = ({ name, software, ask }: Verifier): Promise<Outcome> =>
  shown({ ...claim, client: name }, async () => {
    const says = ask(await required(software));
    const answers: string[] = [];
    for (const question of questions) {
      const fault = await says(question).catch(String);
      if (fault !== undefined) console.log(`${name}, ${question}: ${fault.trim().slice(0, 300)}`);
      answers.push(fault === undefined ? "yes" : /^not /.test(fault) ? "–" : "no");
    }
    if ((await says("stranger").catch(String)) === undefined)
      throw new Error("it accepts a leaf that no root has signed");
    const row = `| ${[name, ...answers].join(" | ")} |`;
    if (!page.includes(row)) throw new Error(`the page says otherwise than ${row}`);
    return row;
  });

const named = process.argv.slice(2);
const chosen = verifiers.filter(
  ({ name }) => named.length === 0 || named.some((each) => name.includes(each)),
);
const outcomes: Outcome[] = [];
for (const verifier of chosen) outcomes.push(await play(verifier));
if (named.length === 0 || named.includes("pqc"))
  outcomes.push(await playPolicy(withEnvoy, folder, goJudge));
if (named.length === 0 || named.includes("ztunnel")) outcomes.push(...(await playZtunnels(folder)));
reportOutcomes(outcomes);
process.exit();
