import { create, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { type Client, createClient, createRouterTransport } from "@connectrpc/connect";
import { beforeAll, describe, expect, test } from "vitest";
import { Health } from "../../../src/gen/grpc/health/v1/health_pb.ts";
import {
  ServerReflection,
  type ServerReflectionRequest,
} from "../../../src/gen/grpc/reflection/v1/reflection_pb.ts";
import { addReflection, issuingServices } from "../../../src/node/http/auxiliary-rpcs.ts";

type Question = ServerReflectionRequest["messageRequest"];

let client: Client<typeof ServerReflection>;

beforeAll(() => {
  const transport = createRouterTransport((router) =>
    addReflection(
      router,
      [...issuingServices, Health],
      async function* hold(_, stream) {
        yield* stream;
      },
      new AbortController().signal,
    ),
  );
  client = createClient(ServerReflection, transport);
});

async function ask(...questions: readonly Question[]) {
  async function* requests() {
    for (const messageRequest of questions) yield { host: "h", messageRequest };
  }
  const answers = await Array.fromAsync(client.serverReflectionInfo(requests()));
  return answers.map(({ messageResponse }) => messageResponse);
}

const named = (value: string): Question => ({ case: "fileContainingSymbol", value });
const service = "istio.v1.auth.IstioCertificateService";

describe("reflection", () => {
  test("lists the services, itself included", async () => {
    const others = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"];
    const names = [service, "rampart.jwt.v1.JwtSvidService", ...others];
    const [answer] = await ask({ case: "listServices", value: "" });
    expect(answer).toMatchObject({
      case: "listServicesResponse",
      value: { service: names.map((name) => ({ name })) },
    });
  });

  test.each([service, `${service}.CreateCertificate`, "istio.v1.auth.IstioCertificateRequest"])(
    "describes %s with everything it needs",
    async (name) => {
      const [answer] = await ask(named(name));
      if (answer?.case !== "fileDescriptorResponse") throw new Error(answer?.case);
      const file = answer.value.fileDescriptorProto.map((octets) =>
        fromBinary(FileDescriptorProtoSchema, octets),
      );
      const registry = createFileRegistry(
        create(FileDescriptorSetSchema, { file: file.reverse() }),
      );
      const { createCertificate } = registry.getService(service)?.method ?? {};
      const { metadata } = createCertificate?.input.field ?? {};
      expect(metadata?.message?.typeName).toBe("google.protobuf.Struct");
    },
  );

  test("knows files by their names, and answers in the order of the questions", async () => {
    const answers = await ask(
      { case: "fileByFilename", value: "grpc/health/v1/health.proto" },
      named("no.such.Thing"),
      { case: "allExtensionNumbersOfType", value: "grpc.health.v1.HealthCheckRequest" },
    );
    expect(answers.map((answer) => answer.case)).toEqual([
      "fileDescriptorResponse",
      "errorResponse",
      "allExtensionNumbersResponse",
    ]);
  });

  test.each<Question>([
    named(""),
    named("x".repeat(1000)),
    { case: "fileByFilename", value: "../../etc/passwd" },
    { case: "allExtensionNumbersOfType", value: "no.such.Type" },
    { case: undefined },
  ])("does not find unknown names (%#)", async (question) => {
    const [answer] = await ask(question);
    expect(answer).toMatchObject({ case: "errorResponse", value: { errorCode: 5 } });
  });
});
