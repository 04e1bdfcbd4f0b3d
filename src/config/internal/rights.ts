import type { ClusterIssuer, ClusterSigner, SubjectIssuer } from "../../authn/token-issuer.ts";
import type { SubjectMapping } from "../../authn/token-subject.ts";
import type { Authorities } from "../../ca/authorities.ts";
import type { NamedSigner } from "../../ca/issuance/signers.ts";
import { nameAllowList } from "../../foundation/globs.ts";
import type { ServiceAccount } from "../../pki/spiffe-id.ts";
import type { IntermediateRights } from "../../pki/x509/intermediate.ts";
import type { ClusterSignerTable, IntermediateTable, IssuerTable } from "../issuer-table.ts";
import type { SignerTable } from "../signer-table.ts";

/** The rights of an issuer's accounts. */
type IssuerRights = Pick<
  ClusterIssuer,
  | "mayVouchFor"
  | "isNodeAccount"
  | "gatewayNames"
  | "mayForwardIdentities"
  | "clusterSigner"
  | "intermediateRights"
  | "mayAddress"
>;

/** The rights that a table of `ISSUERS` grants, and to which accounts. */
export function issuerRights(table: IssuerTable): IssuerRights {
  const mayUse = nameAllowList(table.namespaces);
  const nodeAccounts = new Set(table.trusted_node_accounts.map(accountName));
  const gatewayOf = byAccount(table.gateways, (each) => each);
  return {
    mayVouchFor: ({ namespace }) => mayUse(namespace),
    isNodeAccount: (account) => nodeAccounts.has(accountName(account)),
    gatewayNames: gatewayOf && ((account) => gatewayOf(account)?.dns_names),
    mayForwardIdentities: (account) => gatewayOf?.(account)?.forwards === "identities",
    clusterSigner: byAccount(table.cluster_signers, clusterSigner),
    intermediateRights: byAccount(table.intermediates, intermediateRights),
    mayAddress: table.jwt_audiences && nameAllowList(table.jwt_audiences),
  };
}

/** The rights of an issuer with a table of claims: none beyond the identities that its entries give. */
export function subjectRights(
  { namespaces, jwt_audiences }: IssuerTable,
  subjects: SubjectMapping,
): Pick<SubjectIssuer, "subjects" | "mayVouchFor" | "mayAddress"> {
  const mayUse = nameAllowList(namespaces);
  return {
    subjects,
    mayVouchFor: (account) => mayUse(account.namespace),
    mayAddress: jwt_audiences && nameAllowList(jwt_audiences),
  };
}

type ValueOf<V> = (account: ServiceAccount) => V | undefined;

/** Makes a function that finds the value of the table of an account; `undefined` if there are no tables. */
function byAccount<T extends { readonly account: ServiceAccount }, V>(
  tables: readonly T[],
  toValue: (table: T) => V,
): ValueOf<V> | undefined {
  if (tables.length === 0) return undefined;
  const values = new Map(tables.map((each) => [accountName(each.account), toValue(each)]));
  return (account) => values.get(accountName(account));
}

function clusterSigner({ namespaces, dns_names }: ClusterSignerTable): ClusterSigner {
  const isNamespace = nameAllowList(namespaces);
  return {
    maySignFor: ({ namespace }) => isNamespace(namespace),
    mayName: nameAllowList(dns_names),
  };
}

function intermediateRights({
  trust_domain: trustDomain,
  path_length: pathLength,
  name_constraints: isConstrained,
}: IntermediateTable): IntermediateRights {
  return { trustDomain, pathLength, isConstrained };
}

const accountName = ({ namespace, name }: ServiceAccount): string => `${namespace}/${name}`;

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
