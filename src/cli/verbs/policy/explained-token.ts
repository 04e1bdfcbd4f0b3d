import { pinnedKeys } from "../../../authn/issuer-keys.ts";
import { claimPathText, type MappedSubject } from "../../../authn/subject-claims.ts";
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
 * Says what the CA of a configuration would make of the token in a file, without the token and without claims that are
 * not recorded. It asks nobody, so that denials are not looked up, nor the keys that an issuer publishes. An expired
 * token is judged as of its `iat`: those of CI jobs end before anybody can look at them.
 *
 * @returns What the policy is asked about the bearer; `undefined` for a token that the CA would refuse.
 * @throws OperatorError if the file cannot be read.
 */
export async function explainToken(
  terminal: Terminal,
  file: string,
  { configuration: { issuers, trustDomain } }: ReadRules,
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
    if (nameAllowList(table.namespaces)(namespace)) {
      return { namespace, account, issuer: table.issuer, claims: mapped.tokenSubject.claims };
    }
    say("Refused: the issuer may not vouch for this namespace.");
  } catch (error) {
    if (!(error instanceof CaError)) throw error;
    say(`Refused: ${error.message}.`);
  }
  return undefined;
}

/** @throws CaError for a signature of no key of the configuration. */
async function signatureOf(jws: JsonWebSignature, { jwks }: IssuerTable, now: Date) {
  if (!jwks) return "Signature: NOT checked, for the configuration has no keys of this issuer.";
  await JsonWebSignature.requireSignature(jws, pinnedKeys(jwks), now);
  return "Signature: checked by the issuer's keys in the configuration.";
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
    ...Object.entries(claims).map(([claim, value]) => printable(`  ${claim} = ${value}`)),
  ];
}
