"""What tests of first writes share."""

import pytest

from fx.writing import finding


@pytest.fixture
def first_writes_look_at_what_the_file_made(monkeypatch):
    """Where ``noting.forget()`` makes a write the first of the process.

    It looks at all objects there are: millions, a second or two each time, and none of them is left
    out of collections after that. Of what lived when the file began no test takes a view.
    """
    monkeypatch.setattr(finding, "everything", finding.gc.get_objects)
