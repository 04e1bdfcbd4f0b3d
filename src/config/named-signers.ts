import type { Authorities } from "../ca/authorities.ts";
import type { NamedSigner } from "../ca/issuance/signers.ts";
import { nameAllowList } from "../foundation/text/globs.ts";
import type { SignerTable } from "./signer-table.ts";

/** The signers of `SIGNERS` whose authorities this platform stores. */
export function namedSigners(
  tables: readonly SignerTable[],
  authoritiesOf: ReadonlyMap<string, Authorities>,
): ReadonlyMap<string, NamedSigner> {
  return new Map(
    tables.flatMap((table): [string, NamedSigner][] => {
      const authorities = authoritiesOf.get(table.name);
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
