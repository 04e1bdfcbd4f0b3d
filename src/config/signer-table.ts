import * as z from "zod/mini";
import type { Authorities } from "../ca/authorities.ts";
import { CertSigner } from "../ca/issuance/signer-names.ts";
import type { NamedSigner } from "../ca/issuance/signers.ts";
import { globs, nameAllowList } from "../foundation/globs.ts";
import { jsonText } from "../foundation/text.ts";
import { matching, tableName, uniqueNames } from "./form.ts";
import { upstreamTable } from "./internal/upstream.ts";

const authorityKeys = ["EC-P256", "EC-P384", "RSA-2048", "RSA-4096"] as const;

/** The types of keys for authorities (`AUTHORITY_KEY`): every data plane verifies their signatures. */
export const authorityKey = z.enum(authorityKeys);

/** `authority_key` of a signer. */
const signerKey = z.enum([...authorityKeys, "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"]);

/** `INCEPTION_DATE`, and `inception_date` of a signer. */
export const inceptionDate = z.iso.date("must be a day, YYYY-MM-DD");

/** The day on which an empty store gets its first authority. */
export const InceptionDate = {
  /**
   * Whether an inception date has passed in UTC; `false` without one, and during that day. After it, an empty store gets
   * no authority by itself, because it may have lost one.
   */
  isOver: (day: string | undefined, now: Date): boolean =>
    day !== undefined && day < InceptionDate.dayOf(now),

  /** The day in UTC, such as `2026-11-22`. */
  dayOf: (now: Date): string => now.toISOString().slice(0, 10),
};

const names = globs(/^[a-z0-9.*-]{1,253}$/, "name");

/** Accounts of one issuer that may use a signer. */
const callers = z.strictObject({ issuer: z.string(), namespaces: names, accounts: names });

const ownSigners: readonly string[] = [CertSigner.serving, CertSigner.intermediate];

const table = z
  .strictObject({
    name: matching(tableName, "must be lower-case letters, digits, dots and -").check(
      z.refine(
        (name) => !ownSigners.includes(name),
        `must not be ${ownSigners.join(" or ")}, which are taken`,
      ),
    ),
    authority_key: z._default(signerKey, "EC-P256"),
    mesh_bundle: z._default(z.boolean(), false),
    inception_date: z.optional(inceptionDate),
    /** A root of its own in a key service, instead of what `AUTHORITY_ROOT` says. */
    upstream_authority: z.optional(
      upstreamTable.check(
        z.refine(({ kind }) => kind === "key-service", "must be of the kind key-service"),
      ),
    ),
    callers: z.array(callers).check(z.minLength(1, "must name who may use it"), z.maxLength(256)),
  })
  .check(
    z.refine(
      ({ mesh_bundle, authority_key }) => !mesh_bundle || authority_key.startsWith("ML-DSA"),
      "mesh_bundle is for ML-DSA: other roots are in the bundle of the mesh in any case",
    ),
    z.refine(
      ({ upstream_authority, authority_key }) =>
        !upstream_authority || !authority_key.startsWith("ML-DSA"),
      "upstream_authority is for EC and RSA: no key service has a root of ML-DSA",
    ),
  );

/** One table of `SIGNERS`, checked. */
export type SignerTable = z.output<typeof table>;

/** A sentence for each signer whose roots some data planes cannot read. */
export const sharedPostQuantum = (signers: readonly SignerTable[]): string[] =>
  signers
    .filter(({ mesh_bundle }) => mesh_bundle)
    .map(
      ({ name, authority_key }) =>
        `SIGNERS: the mesh gets the ${authority_key} roots of ${name}, which ztunnel, GnuTLS 3.7 and OpenSSL 3.0 cannot verify (\`rampart docs post-quantum\`)`,
    );

/** `SIGNERS`: a list of tables, or the same as JSON in a text. */
export const signerTables = z.pipe(jsonText, z.array(table).check(z.maxLength(16), uniqueNames));

/** One sentence for each caller of a signer whose issuer has no table: a typing error. */
export function unknownIssuers(
  signers: readonly SignerTable[],
  issuers: readonly { readonly issuer: string }[],
): string[] {
  const known = new Set(issuers.map(({ issuer }) => issuer));
  return signers.flatMap(({ callers }, i) =>
    callers.flatMap(({ issuer }, j) =>
      known.has(issuer) ? [] : [`SIGNERS[${i}].callers[${j}].issuer: must be one of ISSUERS`],
    ),
  );
}

/** The signers of `SIGNERS` whose authorities this platform stores. */
export function namedSigners(
  tables: readonly SignerTable[],
  stores: ReadonlyMap<string, { readonly authorities: Authorities }>,
): ReadonlyMap<string, NamedSigner> {
  return new Map(
    tables.flatMap((table): [string, NamedSigner][] => {
      const authorities = stores.get(table.name)?.authorities;
      return authorities ? [[table.name, { authorities, mayUse: mayUseSigner(table) }]] : [];
    }),
  );
}

function mayUseSigner({ callers }: SignerTable): NamedSigner["mayUse"] {
  const rules = callers.map(({ issuer, namespaces, accounts }) => ({
    issuer,
    isNamespace: nameAllowList(namespaces),
    isAccount: nameAllowList(accounts),
  }));
  return (caller, { namespace, name }) =>
    rules.some(
      (rule) =>
        rule.issuer === caller.issuer?.name && rule.isNamespace(namespace) && rule.isAccount(name),
    );
}
