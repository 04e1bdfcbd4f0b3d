import { describe, expect, test } from "vitest";
import { telemetryOf } from "../../../../src/cli/verbs/run/telemetry.ts";
import { createOperatorFolder, rampartHere } from "../../../testkit/programs/command-line.ts";

const all = "OTEL_EXPORTER_OTLP_ENDPOINT";
const clock = () => new Date();

describe("the telemetry of a program", () => {
  test.each<[string, Record<string, string>]>([
    ["no variable", {}],
    ["no endpoint", { OTEL_EXPORTER_OTLP_HEADERS: "a=b", OTEL_SERVICE_NAME: "c" }],
    ["an empty endpoint", { [all]: "" }],
    ["an endpoint of logs alone", { OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: "http://c:4318" }],
    ["an endpoint that is off", { [all]: "http://127.0.0.1:4318", OTEL_SDK_DISABLED: "true" }],
  ])("is none with %s", async (_, environment) => {
    expect(await telemetryOf("serve", { environment, clock })).toBeUndefined();
  });

  test.each(["serve", "gateway", "distribute", "signer"])(
    "%s refuses a wrong value by one sentence, before anything else",
    async (verb) => {
      const folder = await createOperatorFolder();
      const wrong = { [all]: "http://127.0.0.1:4318", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" };
      const { code, stderr } = await rampartHere(folder, verb, wrong);
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/^\S+ OTEL_EXPORTER_OTLP_PROTOCOL: must be http\/json\n$/),
      ]);
    },
  );
});
