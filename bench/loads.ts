import { create, toBinary } from "@bufbuild/protobuf";
import { CreateJwtSvidRequestSchema } from "../src/gen/rampart/jwt/v1/jwt_svid_pb.ts";
import type { Answer, Edge } from "./edge/edge.ts";
import { tokenAudience } from "./worker/crypto-floor.ts";
import type { Workload } from "./workload.ts";

/** Repeats one call. */
export type Load = (times: number) => Promise<void>;

const path = "/istio.v1.auth.IstioCertificateService/CreateCertificate";
const tokenPath = "/rampart.jwt.v1.JwtSvidService/CreateJwtSvid";
const concurrency = 4;

/** The measured loads: five that repeat inside workerd, and four that come over HTTP. */
export function loadsOf(edge: Edge, workload: Workload) {
  const headers = credentials(workload.token);
  const inside =
    (name: string): Load =>
    async (times) =>
      expectOk(await edge.send(`/bench/${name}?times=${times}`, headers, workload.csrPem));
  const outside =
    (to: string, contentType: string, body: Uint8Array): Load =>
    (times) =>
      inParallel(times, concurrency, async () =>
        expectOk(await edge.send(to, { ...headers, "content-type": contentType }, body)),
      );
  const request = create(CreateJwtSvidRequestSchema, { audiences: [tokenAudience] });
  return {
    floor: inside("floor"),
    issue: inside("issue"),
    tokenFloor: inside("token-floor"),
    token: inside("token"),
    reference: inside("reference"),
    echo: outside("/bench/echo", "application/proto", workload.message),
    connect: outside(path, "application/proto", workload.message),
    grpcWeb: outside(path, "application/grpc-web+proto", enveloped(workload.message)),
    connectToken: outside(
      tokenPath,
      "application/proto",
      toBinary(CreateJwtSvidRequestSchema, request),
    ),
  };
}

/** One Connect call with more headers, and the crypto floor of many. */
export function callsOf(edge: Edge, workload: Workload) {
  const { floor } = loadsOf(edge, workload);
  const headers = { ...credentials(workload.token), "content-type": "application/proto" };
  const call = async (others: Readonly<Record<string, string>>): Promise<void> =>
    expectOk(await edge.send(path, { ...headers, ...others }, workload.message));
  return { floor, call };
}

/** Calls with a token of an unknown key, each of which must be refused. */
export function unknownKeyStorm(edge: Edge, workload: Workload): Load {
  const headers = {
    ...credentials(workload.tokenOfUnknownKey),
    "content-type": "application/proto",
  };
  return (times) =>
    inParallel(times, concurrency, async () => {
      const { status } = await edge.send(path, headers, workload.message);
      if (status !== 401) throw new Error(`a token of an unknown key was answered with ${status}`);
    });
}

/** Calls that take these tokens in turn. */
export function everyToken(edge: Edge, tokens: readonly string[], { message }: Workload): Load {
  let next = 0;
  return (times) =>
    inParallel(times, concurrency, async () => {
      const headers = credentials(tokens[next++ % tokens.length] ?? "");
      const contentType = { "content-type": "application/proto" };
      expectOk(await edge.send(path, { ...headers, ...contentType }, message));
    });
}

function credentials(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}`, clusterid: "Kubernetes" };
}

function expectOk({ status, body }: Answer): void {
  const text = body.toString("latin1");
  const isRefused = text.includes("grpc-status:") && !/grpc-status: ?0/.test(text);
  if (status !== 200 || isRefused) throw new Error(`answered ${status}: ${text.slice(0, 300)}`);
}

/** Acts so often, by so many callers that each wait for their last one. */
export async function inParallel(
  times: number,
  callers: number,
  act: () => Promise<void>,
): Promise<void> {
  let left = times;
  const caller = async (): Promise<void> => {
    while (left-- > 0) await act();
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

/** One gRPC-Web data frame. */
function enveloped(message: Uint8Array): Uint8Array {
  const frame = new Uint8Array(5 + message.length);
  new DataView(frame.buffer).setUint32(1, message.length);
  frame.set(message, 5);
  return frame;
}
