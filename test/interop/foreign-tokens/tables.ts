import { parse } from "smol-toml";
import { platformClaims } from "../../testkit/callers/foreign-tokens.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";

/** What `rampart issuer enrol` is told of the right caller of each issuer. */
const answers = {
  github: "--owner-id 7 --repository-id 74 --environment prod",
  google: `--service-account-id ${platformClaims.google.sub}`,
  azure: `--tenant-id ${platformClaims.azure.tid} --object-id ${platformClaims.azure.oid}`,
  spiffe: `--issuer ${platformClaims.spiffe.iss} --spiffe-id ${platformClaims.spiffe.sub}`,
} as const;

export type IssuerName = keyof typeof answers;

export const identityAt = (issuer: IssuerName): string =>
  `spiffe://cluster.local/ns/at-${issuer}/sa/deploy`;

/** The table that a recipe prints. @param keys Where its keys are, or the keys themselves. */
export async function tableOf(issuer: IssuerName, keys: object): Promise<object> {
  const audience = [platformClaims[issuer].aud].flat()[0] ?? "";
  const place = `--audience ${audience} --namespace at-${issuer} --account deploy`;
  const words = `issuer enrol ${issuer} ${answers[issuer]} ${place} --for serve`;
  const { ISSUERS } = parse(await runRampart(words.split(" "))) as { ISSUERS: object[] };
  return { ...ISSUERS[0], ...keys };
}
