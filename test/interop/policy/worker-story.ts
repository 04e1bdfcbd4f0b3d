import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload, rsa2048 } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEdgeWorker } from "../../testkit/programs/edge-worker.ts";
import type { Outcome } from "../agent/outcome-table.ts";
import { inShadow, live, mistaken } from "./rules.ts";

const names = {
  client: "two callers with EC and RSA keys",
  server: "rampart on Workers (workerd)",
  what: "the same rules, a deployment each",
};

const issuer = "https://cluster.test";

/** The Worker takes each list of rules by a deployment, over the records of the one before. */
export async function playWorker(): Promise<Outcome> {
  const key = await createTokenKey("ES256", "key-1");
  const vars = {
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    KEK: randomKek(),
  };
  const harness = await createEdgeWorker({ vars: { ...vars, POLICY: inShadow } });
  const [ec, rsa] = await Promise.all([createWorkload(), createWorkload(rsa2048)]);
  const ask = async ({ csrPem: csr }: { readonly csrPem: string }): Promise<number> => {
    const { url } = await harness.listen();
    const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";
    const response = await fetch(new URL(path, url), {
      method: "POST",
      headers,
      body: JSON.stringify({ csr }),
    });
    await response.arrayBuffer();
    return response.status;
  };
  try {
    await harness.listen();
    await harness.getWorker().scheduled({ cron: "* * * * *" });
    const seen: string[] = [];
    for (const POLICY of [inShadow, live, mistaken, live]) {
      await harness.deploy({ ...vars, POLICY });
      seen.push(`${await ask(ec)} ${await ask(rsa)}`);
    }
    const expected = ["200 200", "200 200", "200 403", "200 200"];
    const detail = `EC and RSA in shadow, live, mistaken and back: ${seen.join(", ")}`;
    return { ...names, result: seen.join() === expected.join() ? "ok" : "FAILED", detail };
  } catch (error) {
    return { ...names, result: "FAILED", detail: String(error) };
  } finally {
    await harness.close();
  }
}
