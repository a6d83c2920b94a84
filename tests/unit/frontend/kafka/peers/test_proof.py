"""Two nodes prove to each other that they know the cluster's secret."""

import copy
import pickle

import pytest

from millpond.base.errors import InvalidConfig, RemoteProtocolError, WrongCluster
from millpond.frontend.kafka.peers.proof import (
    NONCE_BYTES,
    Answering,
    Asking,
    ClusterSecret,
    ProofFailed,
)

SECRET = ClusterSecret("known to all nodes")
OTHER = ClusterSecret("known to no other node")


def asking(secret: ClusterSecret = SECRET, cluster: str = "c", nonce: int = 1) -> Asking:
    return Asking(secret, 1, cluster, bytes([nonce]) * NONCE_BYTES)


def answering(secret: ClusterSecret = SECRET, cluster: str = "c", nonce: int = 2) -> Answering:
    return Answering(secret, 2, cluster, bytes([nonce]) * NONCE_BYTES)


def test_both_sides_prove_it() -> None:
    one, two = asking(), answering()
    answer = two.answer(one.second(two.answer(one.first())))
    one.check(answer)
    assert two.is_proved
    assert two.is_over
    assert two.asker == 1


def test_an_asker_with_another_secret_learns_nothing() -> None:
    one, two = asking(OTHER), answering()
    proof = one.second(two.answer(one.first()))
    with pytest.raises(ProofFailed, match="its cluster secret is not this node's"):
        two.answer(proof)
    assert not two.is_proved
    assert two.is_over


def test_an_answerer_with_another_secret_is_found_out() -> None:
    one, two = asking(), answering(OTHER)
    one.second(two.answer(one.first()))
    for made_up in (b"", bytes(32), OTHER.prove(b"answerer")):
        with pytest.raises(ProofFailed):
            one.check(made_up)


def test_a_proof_cannot_be_sent_back_nor_used_again() -> None:
    one, two = asking(), answering()
    proof = one.second(two.answer(one.first()))
    with pytest.raises(ProofFailed):
        one.check(proof)
    two.answer(proof)
    # The same words to another connection, which has another nonce.
    again = answering(nonce=3)
    again.answer(one.first())
    with pytest.raises(ProofFailed):
        again.answer(proof)
    # And from a node with another number.
    third = Answering(SECRET, 3, "c", bytes([2]) * NONCE_BYTES)
    third.answer(one.first())
    with pytest.raises(ProofFailed):
        third.answer(proof)


def test_a_node_of_another_cluster_is_told_so() -> None:
    with pytest.raises(WrongCluster, match="belongs to cluster c, not to d"):
        answering().answer(asking(cluster="d").first())


@pytest.mark.parametrize("data", [b"", b"\x01", bytes(39), b"\x02" + bytes(38), bytes(100)])
def test_what_is_no_beginning_of_a_proof_is_refused(data: bytes) -> None:
    two = answering()
    with pytest.raises(RemoteProtocolError):
        two.answer(data)
    assert two.is_over


@pytest.mark.parametrize("data", [b"", bytes(36), b"\x02" + bytes(36), bytes(38)])
def test_what_is_no_challenge_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        asking().second(data)


def test_a_secret_does_not_show_itself() -> None:
    assert "known" not in repr(SECRET)
    assert "known" not in f"{SECRET}"
    with pytest.raises(TypeError):
        pickle.dumps(SECRET)
    with pytest.raises(TypeError):
        copy.copy(SECRET)


@pytest.mark.parametrize("text", ["", "  short  ", "x" * 1025])
def test_a_secret_is_neither_short_nor_endless(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        ClusterSecret(text)
    assert text.strip() not in str(caught.value) or not text.strip()


def test_spaces_around_a_secret_do_not_count() -> None:
    spaced = ClusterSecret(" known to all nodes\n")
    assert spaced.prove(b"x") == SECRET.prove(b"x")
