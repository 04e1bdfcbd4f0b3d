import * as z from "zod";
import { nameAllowList } from "../authn/trusted-issuer.ts";
import { servingSigner } from "../ca/serving-policy.ts";
import type { NamedSigner } from "../ca/signers.ts";
import type { AuthorityKey } from "../pki/self-signed-authority.ts";
import { globs } from "./globs.ts";
import { fromText } from "./json-text.ts";

/** One table of `SIGNERS`, checked. */
export interface SignerTable {
  readonly name: string;
  readonly authority_key: AuthorityKey;
  readonly inception_date?: string | undefined;
  readonly callers: readonly SignerCallers[];
}

/** Accounts of one issuer that may use a signer. */
export interface SignerCallers {
  readonly issuer: string;
  readonly namespaces: readonly string[];
  readonly accounts: readonly string[];
}

/** `AUTHORITY_KEY`, and its like for a signer. */
export const authorityKey: z.ZodType<AuthorityKey> = z.enum([
  "EC-P256",
  "EC-P384",
  "RSA-2048",
  "RSA-4096",
]);

/** `INCEPTION_DATE`, and its like for a signer. */
export const inceptionDate: z.ZodType<string> = z.iso.date("must be a day, YYYY-MM-DD");

const names = globs(/^[a-z0-9.*-]{1,253}$/, "name");

const table = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{0,62}$/, "must be lower-case letters, digits, dots and -")
    .refine((name) => name !== servingSigner, `must not be ${servingSigner}, which is taken`),
  authority_key: authorityKey.default("EC-P256"),
  inception_date: inceptionDate.optional(),
  callers: z
    .array(z.strictObject({ issuer: z.string(), namespaces: names, accounts: names }))
    .min(1, "must name who may use it")
    .max(256),
});

/** `SIGNERS`: a list of tables, or the same as JSON in a text. */
export const signerTables: z.ZodType<readonly SignerTable[]> = z
  .unknown()
  .transform(fromText)
  .pipe(
    z
      .array(table)
      .max(16)
      .refine((list) => new Set(list.map(({ name }) => name)).size === list.length, {
        message: "must not use a name twice",
      }),
  );

/** A rule of a signer's table, ready to be asked. */
export function mayUseSigner({ callers }: SignerTable): NamedSigner["mayUse"] {
  const rules = callers.map(({ issuer, namespaces, accounts }) => ({
    issuer,
    isNamespace: nameAllowList(namespaces),
    isAccount: nameAllowList(accounts),
  }));
  return (caller, { namespace, name }) =>
    rules.some(
      (rule) =>
        rule.issuer === caller.issuer && rule.isNamespace(namespace) && rule.isAccount(name),
    );
}
