import { beforeAll, describe, expect, test } from "vitest";
import { createWorkload, type Workload } from "../../testkit/callers/workload.ts";
import {
  bearer,
  connectBinary,
  connectJson,
  grpcWeb,
  octets,
  type Protocol,
  protocols,
} from "../rpc-calls.ts";
import {
  issuers,
  origin,
  type PlatformUnderTest,
  rpcPath,
  type ServiceUnderTest,
} from "../service-under-test.ts";
import { createWorkloadCalls, type WorkloadCalls } from "./workload-calls.ts";

/** The methods, headers and timeouts that the RPC accepts and refuses, and the shape of its answers. */
export function describeWireRequests(
  service: () => ServiceUnderTest,
  { hasTrailers }: PlatformUnderTest,
): void {
  let workload: Workload;
  let send: WorkloadCalls["send"];
  let outcome: WorkloadCalls["outcome"];
  let codeOf: WorkloadCalls["codeOf"];

  beforeAll(async () => {
    workload = await createWorkload();
    ({ send, outcome, codeOf } = createWorkloadCalls(service(), workload.csrPem));
  });

  const isIssued = { certChain: [expect.any(String), expect.any(String)] };

  describe("a request", () => {
    const url = `${origin}${rpcPath}`;
    const sendRaw = async (to: string, init: RequestInit) =>
      service().send(
        new Request(to, { ...init, headers: { ...(await bearer(service())), ...init.headers } }),
      );
    const json = { "content-type": "application/json" };

    test.each(["GET", "PUT"])("of method %s is refused", async (method) => {
      const body = method === "GET" ? null : "{}";
      const response = await sendRaw(url, { method, body, headers: json });
      expect(response.status).toBe(405);
    });

    test("of method GET is refused with a message in its query", async () => {
      const query = `?connect=v1&encoding=json&message=${encodeURIComponent(JSON.stringify({ csr: workload.csrPem }))}`;
      expect((await sendRaw(`${url}${query}`, { method: "GET" })).status).toBe(405);
    });

    test.each([
      "text/plain",
      "application/json, application/json",
      "application/connect+json",
      "application/grpc-web-text",
      "application/x-protobuf",
    ])("of type %s is refused", async (contentType) => {
      const headers = { "content-type": contentType };
      const response = await sendRaw(url, { method: "POST", body: "{}", headers });
      expect(response.status).toBe(415);
    });

    test("of no type is refused", async () => {
      const response = await sendRaw(url, { method: "POST", body: octets("{}") });
      expect(response.status).toBe(415);
    });

    test.skipIf(hasTrailers).each(["application/grpc", "Application/GRPC"])(
      "of native gRPC (%s) is refused with an explanation and a status",
      async (contentType) => {
        const headers = { "content-type": contentType, te: "trailers" };
        const body = grpcWeb.encode({ csr: workload.csrPem });
        const response = await sendRaw(url, { method: "POST", body, headers });
        expect(response.status).toBe(415);
        expect(response.headers.get("grpc-status")).toBe("12");
        expect(response.headers.get("grpc-message")).not.toBe("");
        expect(await response.text()).toContain("gRPC");
      },
    );

    test.each([
      "/istio.v1.auth.IstioCertificateService/createCertificate",
      "/istio.v1.auth.IstioCertificateService/CreateCertificate/",
      "/istio.v1.auth.IstioCAService/CreateCertificate",
      "//istio.v1.auth.IstioCertificateService/CreateCertificate",
    ])("to %s is not found", async (path) => {
      const response = await sendRaw(`${origin}${path}`, {
        method: "POST",
        body: "{}",
        headers: json,
      });
      expect(response.status).toBe(404);
    });

    test("may have a query, which the service ignores", async () => {
      const body = JSON.stringify({ csr: workload.csrPem });
      const response = await sendRaw(`${url}?a=b`, { method: "POST", body, headers: json });
      expect(response.status).toBe(200);
    });
  });

  describe("a timeout", () => {
    // Node fires a timer of more than 2^31-1 ms at once.
    test.each([
      { protocol: connectJson, value: "2147483648" },
      { protocol: connectBinary, value: "9999999999" },
      { protocol: grpcWeb, value: "2147484S" },
      { protocol: grpcWeb, value: "99999999H" },
    ])("of $value over $protocol.name does not end a call at once", async ({ protocol, value }) => {
      const headers = { [protocol.timeoutHeader]: value };
      expect(await outcome(protocol, { headers })).toEqual(isIssued);
    });

    test.each(protocols)("of zero has passed already over $name", async (protocol) => {
      const headers = { [protocol.timeoutHeader]: protocol.timeout(0) };
      expect(await codeOf(protocol, { headers })).toBe("DeadlineExceeded");
    });

    test("holds for a body that does not come, before the service's own limit does", async () => {
      const endOver = async (protocol: Protocol): Promise<string> => {
        const [hurried, patient] = [unfinishedBody(), unfinishedBody()];
        const headers = { [protocol.timeoutHeader]: protocol.timeout(200) };
        const own = codeOf(protocol, { body: patient.body }).then(() => "the service's own limit");
        const first = Promise.race([own, codeOf(protocol, { body: hurried.body, headers })]);
        return first.finally(() => {
          patient.finish();
          return own;
        });
      };
      const ends = await Promise.all(protocols.map(endOver));
      expect(ends).toEqual(protocols.map(() => "DeadlineExceeded"));
    });
  });

  describe("an answer", () => {
    test("over gRPC-Web has no length, so that Cloudflare can convert it to gRPC", async () => {
      for (const issuer of [issuers.cluster, "https://evil.test"]) {
        const response = await send(grpcWeb, { issuer });
        expect(response.status).toBe(200);
        expect(response.headers.get("content-type")).toBe("application/grpc-web+proto");
        expect(response.headers.has("content-length")).toBe(false);
        await response.arrayBuffer();
      }
    });

    test.each([
      [200, issuers.cluster],
      [401, "https://evil.test"],
      [503, issuers.down],
    ])("over Connect with status %i is in JSON", async (status, issuer) => {
      const response = await send(connectJson, { issuer });
      expect(response.status).toBe(status);
      expect(response.headers.get("content-type")).toBe("application/json");
      await response.text();
    });

    test("over Connect is as long as its content-length says", async () => {
      const response = await send(connectBinary, {});
      const { byteLength } = await response.arrayBuffer();
      expect(response.headers.get("content-length") ?? String(byteLength)).toBe(String(byteLength));
    });
  });
}

/** A body that begins, and does not end before `finish` is called. */
function unfinishedBody() {
  let finish = (): void => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new Uint8Array([0x20]));
      finish = () => controller.close();
    },
  });
  return { body, finish: () => finish() };
}
