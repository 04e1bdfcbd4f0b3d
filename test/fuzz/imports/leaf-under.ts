import type { ImportedAuthority } from "../../../src/cli/verbs/import/verify.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { proved, schedule, workload } from "../../testkit/pki/certificates.ts";
import { leafUnder as heldLeafUnder } from "../../testkit/pki/held-leaf.ts";

/** A workload's certificate under an imported CA, as the workload and its peers get it. */
export interface LeafUnder {
  readonly leafPem: string;
  readonly intermediatesPem: string;
  readonly rootPem: string;
  readonly keyPem: string;
}

/** Issues what a workload of this CA would get today. */
export async function leafUnder({
  certificates,
  privateKey: extractablePrivateKey,
}: ImportedAuthority): Promise<LeafUnder> {
  const today = new Date().toISOString();
  const authority = await SigningAuthority.create(certificates, schedule(today, today));
  const made = { authority, extractablePrivateKey };
  const { chainPem, keyPem } = await heldLeafUnder(made, workload("foo", "bar"), proved);
  const pem = (some: readonly Uint8Array<ArrayBuffer>[]) =>
    some.map((each) => Pem.format("CERTIFICATE", each)).join("");
  return {
    leafPem: chainPem,
    intermediatesPem: pem(certificates.intermediates),
    rootPem: pem(certificates.roots),
    keyPem,
  };
}
