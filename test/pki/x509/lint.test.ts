import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Intent } from "../../../src/pki/x509/leaf/internal/lint.ts";
import { lint } from "../../../src/pki/x509/leaf/internal/lint.ts";
import type { Validity } from "../../../src/pki/x509/validity.ts";
import { applyEdit, type DerEdit, hex, type Octets } from "../../testkit/der/mutation.ts";
import { subjects } from "../../testkit/pki/lint-subjects.ts";
import { readVectors } from "../../testkit/pki/vectors.ts";

/** An edit of faultless bytes, with an edit of the intent where the bytes alone would break another clause. */
interface Vector {
  readonly name: string;
  readonly of: keyof typeof subjects;
  readonly edit?: DerEdit;
  readonly intent?: {
    readonly spiffeId?: string;
    readonly dnsNames?: readonly string[];
    readonly issuer?: string;
    readonly signatureAlgorithm?: string;
    readonly validity?: [string, string];
    readonly issuerValidity?: [string, string];
    readonly issuerKeyIdentifier?: null;
  };
  /** The clause that the edit breaks. */
  readonly clause?: string;
  /** Clauses that the same edit cannot but break. */
  readonly also?: readonly string[];
  /** Whether the bytes are not DER. The linter then finds a clause or fails to parse them. */
  readonly isFaulty?: boolean;
}

const interval = ([notBefore, notAfter]: [string, string]): Validity => ({
  notBefore: new Date(notBefore),
  notAfter: new Date(notAfter),
});

function intentOf({ of, intent = {} }: Vector): Intent {
  const { issuer, signatureAlgorithm, validity, issuerValidity } = intent;
  const meant = subjects[of].intent;
  return {
    ...meant,
    ...(intent.spiffeId && { spiffeId: intent.spiffeId }),
    ...(intent.dnsNames && { dnsNames: intent.dnsNames }),
    ...(validity && { validity: interval(validity) }),
    issuer: {
      ...meant.issuer,
      ...(issuer && { name: hex(issuer) }),
      ...(signatureAlgorithm && { signatureAlgorithm: hex(signatureAlgorithm) }),
      ...(issuerValidity && { validity: interval(issuerValidity) }),
      ...("issuerKeyIdentifier" in intent && { keyIdentifier: undefined }),
    },
  };
}

function bytesOf({ of, edit }: Vector): Octets {
  const { toBeSigned } = subjects[of];
  return edit ? applyEdit(toBeSigned, edit) : toBeSigned;
}

const findings = (vector: Vector): readonly string[] => lint(bytesOf(vector), intentOf(vector));

const vectors = readVectors<Vector>("lint");
const refused = vectors.filter(({ clause }) => clause !== undefined);
const faulty = vectors.filter(({ isFaulty }) => isFaulty);
const accepted = vectors.filter((vector) => !vector.isFaulty && vector.clause === undefined);

test.each(accepted)("finds nothing in $name ($of)", (vector) => {
  expect(findings(vector)).toEqual([]);
});

test.each(refused)("finds $name ($of)", (vector) => {
  const expected = [vector.clause ?? "", ...(vector.also ?? [])];
  expect(findings(vector).toSorted()).toEqual(expected.toSorted());
});

test.each(faulty)("finds a fault in $name", (vector) => {
  expect(findings(vector)).not.toEqual([]);
});

/** The clauses in the linter's source, where each rule begins with its clause. */
function clausesInSource(): string[] {
  const source = readFileSync(
    new URL("../../../src/pki/x509/leaf/internal/lint.ts", import.meta.url),
    "utf8",
  );
  return [...source.matchAll(/\[\s*"([^"]+)",\s*(?:\(|keeps)/g)].map(([, clause = ""]) => clause);
}

test("every clause of the linter has a case that it refuses", () => {
  const clauses = clausesInSource();
  expect(clauses.length).toBeGreaterThanOrEqual(28);
  expect([...new Set(refused.map(({ clause }) => clause))].toSorted()).toEqual(clauses.toSorted());
});

const unacceptableKeys = {
  "of a curve that is not allowed": `3056301006072a8648ce3d020106052b8104000a03420004${"11".repeat(64)}`,
  "with a compressed point": `3039301306072a8648ce3d020106082a8648ce3d03010703220002${"11".repeat(32)}`,
  "of Ed25519 without its last octet": `3029300506032b6570032000${"11".repeat(31)}`,
};

test.each(Object.entries(unacceptableKeys))("finds a public key %s", (_, spki) => {
  const bytes = applyEdit(subjects.ec.toBeSigned, { at: [6], replace: spki });
  expect(lint(bytes, subjects.ec.intent)).not.toEqual([]);
});
