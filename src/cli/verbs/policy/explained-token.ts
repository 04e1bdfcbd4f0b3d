import { IssuerKeys } from "../../../authn/issuer-keys.ts";
import { claimPathText } from "../../../authn/subject-claims.ts";
import type { MappedSubject } from "../../../authn/token-subject.ts";
import type { Denial } from "../../../ca/denial.ts";
import type { Question } from "../../../ca/policy/rule.ts";
import type { IssuerTable } from "../../../config/issuer-table.ts";
import { subjectMappingOf } from "../../../config/token-issuers.ts";
import { CaError } from "../../../foundation/errors.ts";
import { nameAllowList } from "../../../foundation/globs.ts";
import { JsonWebSignature } from "../../../pki/jose/json-web-signature.ts";
import { SpiffeId } from "../../../pki/spiffe-id.ts";
import { readFileText } from "../../session/kubeconfig.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { printable } from "../../terminal/text.ts";
import type { ReadRules } from "./replayed.ts";

/**
 * Prints what the CA of a configuration would decide about the token in a file. It prints neither the token nor claims
 * that are not recorded. It calls nobody, so it knows only denials of the configuration, and not the keys that an
 * issuer publishes. An expired token is judged as of its `iat`: those of CI jobs end before anybody can look at them.
 * @returns The bearer's attributes for the policy; `undefined` for a token that the CA would refuse, or of an issuer
 *   with ServiceAccounts.
 * @throws OperatorError if the file cannot be read.
 */
export async function explainToken(
  terminal: Terminal,
  file: string,
  { configuration: { issuers, trustDomain, configuredDenials } }: ReadRules,
): Promise<Partial<Question> | undefined> {
  const say = (line: string): void => terminal.print(line);
  const now = terminal.clock();
  const text = (await readFileText(file)).trim();
  try {
    const jws = JsonWebSignature.parse(text);
    const table = issuers.find(({ issuer }) => issuer === jws.claims["iss"]);
    if (!table) return void say("Refused: no table of ISSUERS is for the iss of the token.");
    say(`Issuer: ${table.issuer}, of the cluster ${table.cluster}.`);
    say(await signatureOf(jws, table, now));
    const at = judgedAt(jws, now);
    if (at < now) say("The token has expired. When it was issued, it was good for:");
    const mapped = subjectMappingOf(table)?.map(jws.claims, table.audiences, at);
    if (!mapped) return void say("The issuer has ServiceAccounts: explain one by --account.");
    const { namespace, name: account } = mapped.account;
    for (const line of entryOf(mapped, table)) say(line);
    say(`Identity: ${SpiffeId.ofWorkload(trustDomain, mapped.account)}`);
    const denial = denialOf(configuredDenials, mapped, { table, jws, now });
    if (!nameAllowList(table.namespaces)(namespace))
      return void say("Refused: the issuer may not vouch for this namespace.");
    if (denial) return void say(`Refused: DENIED has ${printable(denial.subject)}.`);
    say("Denials: DENIED has none; `rampart deny list` shows those of the store.");
    return { namespace, account, issuer: table.issuer, claims: mapped.tokenSubject.claims };
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    say(`Refused: ${error.message}.`);
  }
  return undefined;
}

/**
 * Verifies the signature, if the configuration has keys of the issuer.
 * @throws CaError for a signature of no such key.
 */
async function signatureOf(jws: JsonWebSignature, { jwks }: IssuerTable, now: Date) {
  if (!jwks) return "Signature: NOT checked, for the configuration has no keys of this issuer.";
  await JsonWebSignature.requireSignature(jws, IssuerKeys.pinned(jwks), now);
  return "Signature: checked by the issuer's keys in the configuration.";
}

/** Finds the denial of the bearer that is in force now. */
function denialOf(
  denials: readonly Denial[],
  { account, tokenSubject }: MappedSubject,
  { table: { cluster, issuer: name }, jws, now }: DeniableToken,
): Denial | undefined {
  const { jti } = jws.claims;
  const tokenId = typeof jti === "string" ? jti : undefined;
  const bound = [{ tokenId, tokenSubject }];
  const attributes = { accounts: [account], issuers: [{ cluster, name }], bound };
  return denials.find(({ until, concerns }) => !(until && until <= now) && concerns(attributes));
}

interface DeniableToken {
  readonly table: IssuerTable;
  readonly jws: JsonWebSignature;
  readonly now: Date;
}

function judgedAt({ claims: { exp, iat } }: JsonWebSignature, now: Date): Date {
  const isOver = typeof exp === "number" && exp * 1000 <= now.getTime();
  return isOver && typeof iat === "number" && iat < exp ? new Date(iat * 1000) : now;
}

function entryOf(
  { tokenSubject: { entry: name, claims }, usedOnceUntil }: MappedSubject,
  { subjects = [] }: IssuerTable,
): readonly string[] {
  const conditions = subjects.find((each) => each.name === name)?.conditions ?? [];
  const paths = conditions.map(({ path }) => claimPathText(path)).join(", ");
  return [
    `Entry: ${name} is the first that fits, by ${paths}${usedOnceUntil ? ", for one use" : ""}.`,
    ...Object.entries(claims).map(([claim, value]) =>
      printable(`  ${claim} = ${[value].flat().join(", ")}`),
    ),
  ];
}
