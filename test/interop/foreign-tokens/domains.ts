import { createServer } from "node:http";
import { parse } from "smol-toml";
import { claimsOf, platformClaims } from "../../testkit/callers/foreign-tokens.ts";
import {
  type Claims,
  createTokenKey,
  jwksOf,
  mintToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";
import type { Spire } from "./spire.ts";

export type DomainName = keyof typeof platformClaims;

/** What `rampart issuer enrol` is told of the right caller of each platform. */
const answers: Readonly<Record<DomainName, string>> = {
  github: "--owner-id 7 --repository-id 74 --environment prod",
  gitlab: "--issuer https://gitlab.test --namespace-id 72 --project-id 20 --ref main",
  aws: `--issuer ${platformClaims.aws.iss} --role ${platformClaims.aws.sub} --org-id o-a1b2c3d4e5`,
  google: `--service-account-id ${platformClaims.google.sub}`,
  azure: `--tenant-id ${platformClaims.azure.tid} --object-id ${platformClaims.azure.oid}`,
  spiffe: `--issuer ${platformClaims.spiffe.iss} --spiffe-id ${platformClaims.spiffe.sub}`,
};

export const domainNames = Object.keys(answers) as readonly DomainName[];

/** The issuers of five platforms, whose keys are the suite's own, and SPIRE as that of a foreign trust domain. */
export interface Domains {
  /** Signs the documented claims of a platform with these changes. SPIRE takes `sub` and `aud` alone. */
  readonly mint: (domain: DomainName, changes?: Claims) => Promise<string>;
  /** Replaces the key of a platform, as its issuer does. */
  readonly rotate: (domain: DomainName) => Promise<void>;
  /** The tables that the recipes print, with the keys where the suite publishes them. */
  readonly tables: () => Promise<readonly object[]>;
  readonly end: () => Promise<void>;
}

const algorithmOf = (domain: DomainName): string => (domain === "aws" ? "ES384" : "RS256");

export async function startDomains(spire: Pick<Spire, "mint" | "bundle">): Promise<Domains> {
  const keys = new Map<DomainName, TokenKey>();
  let generation = 0;
  const rotate = async (domain: DomainName): Promise<void> => {
    keys.set(domain, await createTokenKey(algorithmOf(domain), `key-${++generation}`));
  };
  await Promise.all(domainNames.map(rotate));
  const keyOf = (domain: DomainName): TokenKey => {
    const key = keys.get(domain);
    if (!key) throw new Error(`no key of ${domain}`);
    return key;
  };
  const server = createServer(async ({ url = "" }, response) => {
    const domain = url.slice(1) as DomainName;
    const document =
      domain === "spiffe" ? await spire.bundle() : JSON.stringify(jwksOf(keyOf(domain)));
    response.setHeader("content-type", "application/json");
    response.end(document);
  });
  const { host, close } = await listenOnLoopback(server);
  return {
    rotate,
    end: close,
    mint: async (domain, changes = {}) => {
      const claims: Claims = {
        ...claimsOf(domain, new Date()),
        jti: crypto.randomUUID(),
        ...changes,
      };
      if (domain === "spiffe")
        return spire.mint(String(claims["sub"]), [claims["aud"]].flat().map(String));
      return mintToken(keyOf(domain), claims);
    },
    tables: () =>
      Promise.all(
        domainNames.map(async (domain) => {
          const audience = [platformClaims[domain].aud].flat()[0] ?? "";
          const place = `--audience ${audience} --namespace at-${domain} --account deploy`;
          const words = `issuer enrol ${domain} ${answers[domain]} ${place} --for serve`;
          const { ISSUERS } = parse(await runRampart(words.split(" "))) as unknown as {
            ISSUERS: readonly object[];
          };
          return { ...ISSUERS[0], jwks_uri: `http://${host}/${domain}` };
        }),
      ),
  };
}
