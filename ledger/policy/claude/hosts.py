"""Documentation sites that Claude Code's WebFetch reads without asking, as far as its list was measured."""

from __future__ import annotations

from typing import Final

DOCUMENTATION: Final = frozenset({
    "agentskills.io", "angular.io", "asp.net", "bun.sh", "cloud.google.com", "code.claude.com", "cypress.io",
    "d3js.org", "dev.mysql.com", "devcenter.heroku.com", "developer.android.com", "developer.apple.com",
    "developer.mozilla.org", "doc.rust-lang.org", "docs.aws.amazon.com", "docs.djangoproject.com",
    "docs.netlify.com", "docs.oracle.com", "docs.python.org", "docs.spring.io", "docs.unrealengine.com",
    "dotnet.microsoft.com", "en.cppreference.com", "expressjs.com", "fastapi.tiangolo.com",
    "flask.palletsprojects.com", "getbootstrap.com", "git-scm.com", "go.dev", "gradle.org", "graphql.org",
    "hibernate.org", "httpd.apache.org", "jestjs.io", "jupyter.org", "kotlinlang.org", "kubernetes.io",
    "laravel.com", "learn.microsoft.com", "matplotlib.org", "maven.apache.org", "modelcontextprotocol.io",
    "nextjs.org", "nginx.org", "nodejs.org", "numpy.org", "pandas.pydata.org", "pkg.go.dev", "platform.claude.com",
    "prisma.io", "pytorch.org", "react.dev", "reactnative.dev", "redis.io", "redux.js.org",
    "requests.readthedocs.io", "ruby-doc.org", "scikit-learn.org", "symfony.com", "tailwindcss.com", "threejs.org",
    "vuejs.org", "webpack.js.org", "www.mongodb.com", "www.php.net", "www.postgresql.org", "www.sqlite.org",
    "www.tensorflow.org", "www.terraform.io", "www.typescriptlang.org",
})  # fmt: skip
