import { lengthField, mutateMessage, varintField } from "../mutation/protobuf.ts";
import { corpusCsr, corpusToken, judgeCall } from "./service.ts";
import type { Target } from "./target.ts";

const fields = [lengthField(1, Buffer.from(corpusCsr)), varintField(3, 3600n)];

/** The message of a call by a caller with a good token, over Connect. */
export const protobufMessage: Target = {
  generate: (random) => mutateMessage(random, fields),
  judge: (octets) => {
    const headers = { authorization: `Bearer ${corpusToken}`, "content-type": "application/proto" };
    return judgeCall({ method: "POST", headers: new Headers(headers), body: octets });
  },
};
