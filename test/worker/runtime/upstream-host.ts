import { signIntermediate } from "../../testkit/pki/company-ca.ts";
import { createCa } from "../../testkit/pki/plugged-in.ts";
import type { Host, UpstreamOrders } from "./internet.ts";

/** What both kinds of CA are asked, as far as it counts here. */
interface Asked {
  readonly csr: string;
  readonly ttl?: string;
  readonly validityDuration?: string;
}

/** A CA upstream for Node, which signs what the Workers under test ask it for. */
export function createUpstreamHost(): Host {
  const root = createCa("O=company,CN=root");
  let orders: UpstreamOrders = { conduct: "refuses", now: 0 };
  let asked = 0;
  return async (request) => {
    const { pathname } = new URL(request.url);
    if (request.method === "GET") return { status: 200, body: `${asked}` };
    if (request.method === "PUT") {
      orders = JSON.parse(await request.text());
      return { status: 204, body: "" };
    }
    asked++;
    const { conduct, now } = orders;
    if (conduct === "hangs") return new Promise(() => {});
    if (conduct === "refuses") return { status: 403, body: "{}" };
    if (conduct === "answers HTML") return { status: 200, body: "<html></html>" };
    const { csr, ttl, validityDuration } = JSON.parse(await request.text()) as Asked;
    const issuer = await root;
    const seconds = Number.parseInt(ttl ?? validityDuration ?? "", 10);
    const notAfter = new Date((now + seconds) * 1000);
    const certificate =
      conduct === "signs"
        ? await signIntermediate(issuer, csr, { notAfter })
        : (await createCa("O=other", { issuer, notAfter })).pem;
    const body = pathname.startsWith("/v1/")
      ? { data: { certificate, issuing_ca: issuer.pem, ca_chain: [certificate, issuer.pem] } }
      : { certChain: [certificate, issuer.pem] };
    return { status: 200, body: JSON.stringify(body) };
  };
}
