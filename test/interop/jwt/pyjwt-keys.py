# Verifies tokens with PyJWT by a JWK Set: the set and the audience, then a token a line.
import json
import sys

import jwt

keys, audience = sys.argv[1:]
key_set = jwt.PyJWKSet.from_json(keys)
algorithms = {"RSA": ["RS256"], "EC": ["ES256"]}
for line in sys.stdin:
    token = line.strip("\n")
    try:
        key = key_set[jwt.get_unverified_header(token).get("kid")]
        claims = jwt.decode(
            token,
            key,
            algorithms=algorithms[key.key_type],
            audience=audience,
            # Rampart grants it to nbf and iat alone.
            leeway=60,
            options={"require": ["exp", "sub"]},
        )
        print(json.dumps({"spiffeId": claims["sub"]}), flush=True)
    except Exception as error:
        print(json.dumps({"error": type(error).__name__}), flush=True)
