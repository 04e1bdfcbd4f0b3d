import { beforeAll, beforeEach, expect, test } from "vitest";
import { claimsOf, platformClaims } from "../../testkit/callers/foreign-tokens.ts";
import {
  type Claims,
  createTokenKey,
  jwksOf,
  mintToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import type { ConfigurableService, RunningService } from "./configurable-service.ts";
import { onStage, type StagedService } from "./stage.ts";

type Platform = keyof typeof platformClaims;

interface Row {
  /** An entry of `subjects`, as docs/how-to/foreign-tokens.md recommends it. */
  readonly claims: object;
  readonly account: string;
  /** The account that the platform's token gets. */
  readonly given: string;
  /** What another tenant of the platform has instead. */
  readonly other: Claims;
}

const rows: Readonly<Record<Platform, Row>> = {
  github: {
    claims: { repository_owner_id: "7", repository_id: "74", environment: "prod" },
    account: "repo-{repository_id}",
    given: "repo-74",
    other: { repository_id: "75", sub: "repo:octo-org@7/other@75:environment:prod" },
  },
  gitlab: {
    claims: { namespace_id: "72", project_id: "20", job_project_id: "20", ref_protected: true },
    account: "project-{project_id}",
    given: "project-20",
    // A pipeline of a fork has the project's id, and runs another one's jobs.
    other: { job_project_id: "21" },
  },
  aws: {
    claims: {
      sub: "arn:aws:iam::111122223333:role/build",
      "https://sts.amazonaws.com/": { aws_account: "111122223333" },
    },
    account: 'aws-{"https://sts.amazonaws.com/".aws_account}',
    given: "aws-111122223333",
    other: { "https://sts.amazonaws.com/": { aws_account: "444455556666" } },
  },
  google: {
    claims: { sub: "112010400000000710080", email_verified: true },
    account: "vm-{google.compute_engine.instance_id}",
    given: "vm-152986662232938449",
    other: { sub: "112010400000000710081" },
  },
  azure: {
    claims: {
      tid: "7f1c0e64-9fd5-4d4b-8f7f-0f2f2a6a1c55",
      oid: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d",
    },
    account: "build",
    given: "build",
    other: { oid: "00000000-5e4f-4a3b-8c2d-1e0f9a8b7c6d" },
  },
  spiffe: {
    claims: { sub: "spiffe://other.test/ns/billing/sa/*" },
    account: "billing",
    given: "billing",
    other: { sub: "spiffe://other.test/ns/billing/sa/report/../../x" },
  },
};

/** Most sign with RS256, whose keys take long to make: one of them shows it. */
const algorithms: Partial<Record<Platform, string>> = { github: "RS256", aws: "ES384" };

const platforms = Object.keys(rows) as readonly Platform[];

/**
 * The contract of `subjects`, over the wire: tokens with the documented claims of five platforms and of a foreign SPIFFE
 * trust domain. Nobody here has their keys.
 */
export function describeForeignTokens(open: () => Promise<ConfigurableService>): void {
  const keys = new Map<Platform, TokenKey>();
  let service: StagedService;
  let running: RunningService;
  let csr: string;
  let ISSUERS: readonly object[];

  beforeAll(async () => {
    csr = (await createWorkload()).csrPem;
    for (const platform of platforms) {
      const { [platform]: algorithm = "ES256" } = algorithms;
      keys.set(platform, await createTokenKey(algorithm, "k1"));
    }
  });

  beforeEach(async () => {
    service = await onStage(open)();
    await service.addAuthority([-2, -1, 10, 20]);
    ISSUERS = platforms.map((platform) => ({
      issuer: platformClaims[platform].iss,
      audiences: [platformClaims[platform].aud].flat(),
      cluster: platform,
      namespaces: [`at-${platform}`],
      jwks: jwksOf(keyOf(platform)),
      subjects: [
        {
          name: "it",
          claims: rows[platform].claims,
          namespace: `at-${platform}`,
          account: rows[platform].account,
        },
      ],
    }));
  });

  function keyOf(platform: Platform): TokenKey {
    const key = keys.get(platform);
    if (!key) throw new Error(`no key of ${platform}`);
    return key;
  }

  const start = async (changes: object = {}): Promise<void> => {
    running = await service.startAlone({ ISSUERS, PROPAGATION_INTERVAL: "0s", ...changes });
  };

  async function ask(platform: Platform, changes: Claims = {}, metadata = {}) {
    const token = await mintToken(keyOf(platform), {
      ...claimsOf(platform, new Date()),
      ...changes,
    });
    running.takeAudits();
    const outcome = await running.call(
      csr,
      undefined,
      { authorization: `Bearer ${token}` },
      metadata,
    );
    return { outcome, audit: running.takeAudits()[0] };
  }

  const refused = { code: "Unauthenticated", message: "request authentication failed" };

  test("each platform's token gets the identity of its entry, and its claims stand in the audit line", async () => {
    await start();
    for (const platform of platforms) {
      const { outcome, audit } = await ask(platform);
      expect(outcome).toHaveProperty("certChain");
      expect(audit).toMatchObject({
        outcome: "issued",
        spiffeId: `spiffe://cluster.local/ns/at-${platform}/sa/${rows[platform].given}`,
        issuer: platformClaims[platform].iss,
        tokenSubject: {
          sub: platformClaims[platform].sub,
          entry: "it",
          claims: expect.any(Object),
        },
      });
    }
  });

  test("another tenant's token gets nothing, and learns nothing", async () => {
    await start();
    for (const platform of platforms) {
      const { outcome, audit } = await ask(platform, rows[platform].other);
      expect([platform, outcome]).toEqual([platform, refused]);
      expect(audit).toMatchObject({ reason: "credential-rejected", check: "subject" });
      expect(audit?.["detail"]).toMatch(/^no entry of subjects fits: the nearest, it, misses /);
    }
  });

  test("a token of one platform is none of another, and names nobody else", async () => {
    await start();
    for (const platform of platforms) {
      const { iss } = platformClaims[platform === "github" ? "gitlab" : "github"];
      const { outcome, audit } = await ask(platform, { iss });
      expect(outcome).toEqual(refused);
      expect(audit).toMatchObject({ reason: "credential-rejected" });
      const named = { ImpersonatedIdentity: "spiffe://cluster.local/ns/at-github/sa/repo-74" };
      expect((await ask(platform, {}, named)).audit).toMatchObject({
        reason: "impersonation-denied",
      });
    }
  });

  test("a denial of one repository is none of the others", async () => {
    const since = new Date(Date.now() - 60_000).toISOString();
    await start({ DENIED: [{ subject: "claim/repository_id=74", since }] });
    expect((await ask("github")).audit).toMatchObject({
      reason: "denied",
      check: "claim/repository_id=74",
    });
    expect((await ask("gitlab")).outcome).toHaveProperty("certChain");
  });
}
