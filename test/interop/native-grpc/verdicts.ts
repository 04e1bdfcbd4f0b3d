import { run } from "../../testkit/programs/child-process.ts";
import type { Software } from "../software.ts";
import { ask } from "./clients/clients.ts";
import type { Scratch } from "./scratch.ts";

/** A certificate chain that was issued, and its expected properties. */
interface Issued {
  readonly certChain: readonly string[];
  readonly spiffeId: string;
  readonly keyPem: string;
}

/** Judges a certificate. @returns Its faults. */
export type Verdict = (issued: Issued) => Promise<string[]>;

/** The sources of lints that hold for a private PKI (docs/explanation/standards.md#findings-of-tools). */
const zlintSources = "RFC5280,RFC5480,RFC5891,Community";

/** OpenSSL, zlint and Go, each independent of the others. */
export function verdictOf(software: {
  readonly istioClient: Software;
  readonly zlint: Software;
  readonly scratch: Scratch;
}): Verdict {
  const { istioClient, zlint, scratch } = software;
  return async ({ certChain, spiffeId, keyPem }) => {
    const [leaf = ""] = certChain;
    const roots = certChain.at(-1) ?? "";
    if (certChain.length !== 2) return [`a chain of ${certChain.length} elements`];
    const leafFile = await scratch.file("leaf", leaf);
    const rootsFile = await scratch.file("roots", roots);
    const faults = [
      await opensslFault(leafFile, rootsFile, "sslclient"),
      await opensslFault(leafFile, rootsFile, "sslserver"),
    ];
    if ("program" in zlint) {
      faults.push(await zlintFault(zlint.program, leafFile));
      for (const root of certificatesIn(roots)) {
        faults.push(await zlintFault(zlint.program, await scratch.file("root", root)));
      }
    }
    if ("program" in istioClient) {
      const input = { leaf, key: keyPem, roots, spiffeId };
      const { error } = await ask<{ error?: string }>(istioClient.program, "verify", input);
      faults.push(error && `Go: ${error}`);
    }
    return faults.filter((fault) => fault !== undefined && fault !== "") as string[];
  };
}

/** `openssl verify -x509_strict`, for one end of a connection. */
export async function opensslFault(
  leafFile: string,
  rootsFile: string,
  purpose: "sslclient" | "sslserver",
  hostname?: string,
): Promise<string | undefined> {
  const flags = ["-x509_strict", "-purpose", purpose, "-CAfile", rootsFile, "-no-CApath"];
  const name = hostname === undefined ? [] : ["-verify_hostname", hostname];
  const { exitCode, stdout, stderr } = await run("openssl", [
    "verify",
    ...flags,
    ...name,
    leafFile,
  ]);
  return exitCode === 0 ? undefined : `openssl verify: ${(stdout + stderr).trim()}`;
}

/** The faults that zlint reports. Its notices are advice. */
export async function zlintFault(program: string, file: string): Promise<string | undefined> {
  const flags = ["-includeSources", zlintSources, "-format", "pem", file];
  const { exitCode, stdout, stderr } = await run(program, flags);
  if (exitCode !== 0) return `zlint: ${stderr.trim()}`;
  const results = JSON.parse(stdout) as Readonly<Record<string, { readonly result: string }>>;
  const found = Object.entries(results).filter(([, { result }]) =>
    ["warn", "error", "fatal"].includes(result),
  );
  if (Object.keys(results).length < 100) return "zlint: has run hardly any lint";
  return found.length === 0 ? undefined : `zlint: ${found.map(([lint]) => lint).join(", ")}`;
}

export function certificatesIn(pem: string): string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g) ?? [];
}
