# Verifies tokens with PyJWT by the published key set: the URL of the set, the issuer and the audience, then a token a line.
import ssl
import sys

import jwt

url, issuer, audience, roots = sys.argv[1:]
context = ssl.create_default_context(cafile=roots)
for line in sys.stdin:
    token = line.strip()
    try:
        # Without a cache: the key set is that of this moment.
        client = jwt.PyJWKClient(url, cache_jwk_set=False, ssl_context=context)
        key = client.get_signing_key_from_jwt(token)
        claims = jwt.decode(
            token,
            key,
            algorithms=["ES256", "RS256"],
            audience=audience,
            issuer=issuer,
            options={"require": ["exp", "iat", "sub", "jti"]},
        )
        print(claims["sub"], flush=True)
    except jwt.PyJWTError as error:
        print(f"refused: {type(error).__name__}", flush=True)
