import { createClient } from "../../src/client/client.ts";
import { playScene } from "./scenes.ts";

/** Plays the scene of the request. */
export default {
  async fetch(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const origin = searchParams.get("origin") ?? "";
    try {
      await playScene(searchParams.get("scene") ?? "", { createClient, origin });
      return new Response("played");
    } catch (error) {
      return new Response(error instanceof Error ? error.stack : "no error");
    }
  },
};
