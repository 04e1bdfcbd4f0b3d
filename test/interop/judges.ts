import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run, runWell } from "../testkit/programs/child-process.ts";
import { fromCargo, fromGoModule, ofTheMachine, type Software } from "./software.ts";

/** What a verifier is shown, PEM. */
export interface JudgedLeaf {
  readonly leafPem: string;
  readonly intermediatesPem: string;
  readonly rootPem: string;
  /** The only one that the leaf may have. */
  readonly spiffeId?: string;
}

/**
 * Go's crypto/x509, which reads lines. It requires a leaf's SPIFFE ID, if there is one, and knows every critical
 * extension; of a CRL it requires all that the question says.
 */
export const goJudge = (): Promise<Software> =>
  fromGoModule(join(import.meta.dirname, "verifiers/go"), "verifier");

/** rustls-webpki as ztunnel builds it, which reads lines. */
export const webpkiJudge = (): Promise<Software> =>
  fromCargo(join(import.meta.dirname, "verifiers/webpki"), "webpki-judge");

export const opensslJudge = (): Promise<Software> =>
  ofTheMachine("openssl", ["version"], /^OpenSSL 3/);

export const gnutlsJudge = (): Promise<Software> =>
  ofTheMachine("certtool", ["--version"], /^certtool 3/);

/** Asks a program that answers each line of JSON with a line that holds a fault, or none. */
export async function askInLines(
  program: string,
  questions: readonly object[],
): Promise<readonly string[]> {
  const input = questions.map((each) => `${JSON.stringify(each)}\n`).join("");
  const lines = (await runWell(program, [], { input, timeoutSeconds: 300 })).trim().split("\n");
  if (lines.length !== questions.length) throw new Error(`${lines.length} answers`);
  return lines.map((line) => (JSON.parse(line) as { fault: string }).fault);
}

/** What a verifier says of a leaf, for a server and for a client: nothing where it is good. */
export type FaultOf = (leaf: JudgedLeaf) => Promise<string>;

/** What `openssl verify` says with these options. */
export function opensslFault(folder: string, ...options: readonly string[]): FaultOf {
  return async (judged) => {
    const files = await writeLeaf(folder, judged);
    const verify = async (purpose: string): Promise<string> => {
      const trust = ["-CAfile", files.root, "-untrusted", files.intermediates];
      const values = ["verify", ...options, "-purpose", purpose, ...trust, files.leaf];
      const { exitCode, stderr } = await run("openssl", values);
      if (exitCode === 0) return "";
      return stderr.trim().split("\n").slice(1, 2).join() || `${exitCode}`;
    };
    const [server, client] = await Promise.all(["sslserver", "sslclient"].map(verify));
    return server || client || "";
  };
}

/** What GnuTLS says with these options. It wants a chain in its order. */
export function gnutlsFault(folder: string, ...options: readonly string[]): FaultOf {
  return async (judged) => {
    const files = await writeLeaf(folder, judged);
    const chain = join(folder, "chain.pem");
    await writeFile(chain, judged.leafPem + judged.intermediatesPem);
    const verify = async (purpose: string): Promise<string> => {
      const values = ["--verify", ...options, "--verify-purpose", purpose, "--infile", chain];
      const trust = ["--load-ca-certificate", files.root];
      const { exitCode, stdout, stderr } = await run("certtool", [...values, ...trust]);
      if (exitCode === 0) return "";
      const [said] = /Chain verification output: .*/.exec(stdout) ?? [stderr.trim()];
      return said || `${exitCode}`;
    };
    const usages = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"];
    const [server, client] = await Promise.all(usages.map(verify));
    return server || client || "";
  };
}

async function writeLeaf(folder: string, { leafPem, intermediatesPem, rootPem }: JudgedLeaf) {
  const [leaf, intermediates, root] = ["leaf", "intermediates", "root"].map((name) =>
    join(folder, `${name}.pem`),
  ) as [string, string, string];
  await Promise.all([
    writeFile(leaf, leafPem),
    // OpenSSL wants a certificate in each file that it is given.
    writeFile(intermediates, intermediatesPem || rootPem),
    writeFile(root, rootPem),
  ]);
  return { leaf, intermediates, root };
}

/** One after the other: the programs share the files of a folder. */
export async function faultsOf(
  leaves: readonly JudgedLeaf[],
  faultOf: FaultOf,
): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const each of leaves) faults.push(await faultOf(each));
  return faults;
}
